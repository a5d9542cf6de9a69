"""The data pipeline on Spark: groups as tables, tables as messages, traces checked against the properties."""
