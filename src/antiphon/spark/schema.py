"""The rows of a journal as Spark sees them: the columns of `antiphon.journal.schema`, one for one.

Spark compares what a source gives with what it announced and is strict about it, so a test holds the two
statements against each other.
"""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_NAMES = ArrayType(StringType())

_COLUMNS: dict[str, DataType] = {
    "offset": LongType(),
    "kind": StringType(),
    "group": StringType(),
    "groups": _NAMES,
    "sender": StringType(),
    "service": StringType(),
    "view": StringType(),
    "sequence": LongType(),
    "sent": TimestampType(),
    "delivered": TimestampType(),
    "payload": BinaryType(),
    "daemon": LongType(),
    "incarnation": LongType(),
    "session": LongType(),
    "lts": LongType(),
    "place": LongType(),
    "tag": LongType(),
    "members": _NAMES,
    "transitional": _NAMES,
    "changed": _NAMES,
    "cause": StringType(),
    "batch": StringType(),
}

ROWS = StructType([StructField(name, kind) for name, kind in _COLUMNS.items()])
"""What `spark.read.format("antiphon")` gives. Built here, not parsed from text: workers have no parser."""

WRITTEN = StructType([ROWS[name] for name in ("payload", "group", "groups", "service", "tag")])
"""The columns of a message that is to be sent."""
