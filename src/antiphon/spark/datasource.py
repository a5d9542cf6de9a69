"""The data source `antiphon` of Spark: `spark.read`, `readStream`, `write` and `writeStream` lead here.

Spark finds it by itself through the module `pyspark_antiphon`; `register` does the same by hand.
"""

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from antiphon.errors import AntiphonError, UsageError
from antiphon.spark.catalog import NOT_KEPT, chosen, columns_of, table_of, with_kept
from antiphon.spark.foreign import is_table, ours
from antiphon.spark.options import Reading, Writing, check_options
from antiphon.spark.session import PUSHDOWN
from antiphon.spark.sink import BatchWriter, StreamWriter
from antiphon.spark.source import Reader, StreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class AntiphonDataSource(DataSource):
    """Groups as tables and tables as messages."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        # Here and not later: Spark tells errors of this place as they are.
        self._reading, _ = check_options(options)

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return "antiphon"

    def schema(self) -> StructType:
        """What reading gives. The first thing that Spark asks when it reads or creates a table, and never
        when it writes."""
        if is_table(self.options):
            return table_of(self.options, self._reading.columns, is_read=bool(self._reading.endpoints))
        _check_endpoint(self._reading)
        return chosen(self._reading.columns)

    def reader(self, schema: StructType) -> Reader:
        """For `spark.read`."""
        return Reader(self._expected(schema))

    def streamReader(self, schema: StructType) -> StreamReader:
        """For `spark.readStream`."""
        try:
            return StreamReader(self._expected(schema))
        except AntiphonError as error:  # here Spark would hide it behind an error of its own
            return StreamReader(self._reading, fault=error)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """For `df.write`."""
        if overwrite:
            raise UsageError('antiphon: messages cannot be overwritten; use mode("append")')
        return BatchWriter(self._writing(schema), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """For `df.writeStream`."""
        return StreamWriter(self._writing(schema), schema)

    def _expected(self, schema: StructType) -> Reading:
        """How to read rows of this schema."""
        reading, _ = check_options(with_kept(self.options, schema))
        _check_endpoint(reading)
        return replace(reading, columns=columns_of(schema))

    def _writing(self, schema: StructType) -> Writing:
        """How to write rows of this schema. With an address of its own, it is no `INSERT` into a table whose
        columns they are, but rows that were read from there."""
        given = ours(self.options)
        return check_options(given if "address" in given else with_kept(given, schema))[1]


def _check_endpoint(reading: Reading) -> None:
    if not reading.endpoints:
        raise UsageError(
            "antiphon: the option endpoint is missing: grpc://HOST:PORT of a journal. "
            f"If this is a table that was created with it: {NOT_KEPT}"
        )


def register(spark: "SparkSession") -> None:
    """Make the source known to a session that does not find it by itself, and let the session show it the
    conditions of queries."""
    spark.dataSource.register(AntiphonDataSource)
    spark.conf.set(PUSHDOWN, "true")
