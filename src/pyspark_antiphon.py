"""Spark looks for modules with names like this one, so that `format("antiphon")` works without a word."""

from antiphon.spark.datasource import AntiphonDataSource as DefaultSource

__all__ = ["DefaultSource"]
