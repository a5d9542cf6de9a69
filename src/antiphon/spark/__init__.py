"""The data pipeline on Spark: groups as tables, tables as messages, traces held against the properties."""
