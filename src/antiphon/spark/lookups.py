"""Java's classes and their methods, asked for once.

For each column that a plan names, PySpark asks Java for a class by its name, and for a method of it, over
a connection; and for a short name Java looks through every archive that Spark has. The plans of a check have
thousands of columns, so that the same few questions are a good part of what it costs to make them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OFTEN = (
    "functions",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.expressions.Window",
    "PythonUtils",
    "PythonSQLUtils",
)
"""The classes that PySpark asks for whenever a column, a function or a window is made."""


class _Known:
    """A class of Java that is asked for each of its methods only once."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._found, name)
        setattr(self, name, member)
        return member


def remember_classes(spark: "SparkSession") -> None:
    """From now on, PySpark finds these classes without asking."""
    java: Any = spark.sparkContext._jvm
    for name in _OFTEN:
        if not isinstance(java.__dict__.get(name), _Known):
            setattr(java, name, _Known(getattr(java, name)))
