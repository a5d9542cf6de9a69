"""Tables of a catalog: `CREATE TABLE t USING antiphon OPTIONS (...)`, then `SELECT` and `INSERT`.

Spark shows a Python source the options of a table only while the table is being created; whoever reads from
the table or writes to it later gets none (Spark 4.3; temporary views keep theirs). What Spark does keep, and
hands over each time, are the table's columns with their metadata. So the options are written there.
"""

from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from antiphon.errors import UsageError
from antiphon.spark.foreign import ours
from antiphon.spark.schema import ROWS, WRITTEN

_KEPT = "antiphon.options"
_OF_ONE_WRITE = {"query", "batch"}
NOT_KEPT = (
    "Spark keeps the options of a table only if it has the source's own columns: in CREATE TABLE, leave out "
    "the list of columns (the option columns chooses some), or make it a temporary view"
)


def table_of(options: Mapping[str, str], columns: tuple[str, ...] | None, *, is_read: bool) -> StructType:
    """The columns of a table that is being created, with the options in the metadata of the first one.

    A table that cannot be read, because no journal is given, has the columns that a message can have.
    """
    given = ours(options)
    for name in _OF_ONE_WRITE & given.keys():
        raise UsageError(
            f"antiphon: {name} is the option of one write, and not of a table, where each INSERT would be "
            "taken for a copy of the first"
        )
    first, *others = chosen(columns).fields if is_read else WRITTEN.fields
    kept = StructField(first.name, first.dataType, first.nullable, {_KEPT: given})
    return StructType([kept, *others])


def with_kept(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The options that a table was created with, and those that are given now, which count first."""
    for field in schema.fields:
        kept = field.metadata.get(_KEPT)
        if kept:
            return {**kept, **ours(options)}
    return ours(options)


def chosen(columns: tuple[str, ...] | None) -> StructType:
    """The rows of a journal, with these columns."""
    return ROWS if columns is None else StructType([ROWS[name] for name in columns])


def columns_of(schema: StructType) -> tuple[str, ...] | None:
    """The columns that Spark expects, None for all of them; UsageError if a journal has no such columns."""
    fields = {field.name: field.dataType for field in ROWS.fields}
    for field in schema.fields:
        if field.name not in fields:
            raise UsageError(f"antiphon: no column {field.name!r}: there are {', '.join(fields)}")
        if field.dataType != fields[field.name]:
            have, wanted = fields[field.name].simpleString(), field.dataType.simpleString()
            raise UsageError(f"antiphon: the column {field.name} is {have}, not {wanted}")
    names = tuple(field.name for field in schema.fields)
    return None if names == tuple(fields) else names
