"""The data source `antiphon` of Spark: `spark.read`, `readStream`, `write` and `writeStream` lead here.

Spark finds it by itself through the module `pyspark_antiphon`; `register` does the same by hand.
"""

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from antiphon.errors import UsageError
from antiphon.spark.options import Reading, check_options
from antiphon.spark.schema import ROWS
from antiphon.spark.sink import BatchWriter, StreamWriter
from antiphon.spark.source import Reader, StreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class AntiphonDataSource(DataSource):
    """Groups as tables and tables as messages."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        # Here and not later: Spark tells errors of this place as they are.
        self._reading, self._writing = check_options(options)

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return "antiphon"

    def schema(self) -> StructType:
        """What reading gives. The first thing that Spark asks when it reads, and never when it writes."""
        self._check_reading()
        return ROWS

    def reader(self, schema: StructType) -> Reader:
        """For `spark.read`."""
        return Reader(self._check_reading())

    def streamReader(self, schema: StructType) -> StreamReader:
        """For `spark.readStream`."""
        return StreamReader(self._reading)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """For `df.write`."""
        if overwrite:
            raise UsageError('antiphon: messages cannot be overwritten; use mode("append")')
        return BatchWriter(self._writing, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """For `df.writeStream`."""
        return StreamWriter(self._writing, schema)

    def _check_reading(self) -> Reading:
        if not self._reading.endpoints:
            raise UsageError("antiphon: the option endpoint is missing: grpc://HOST:PORT of a journal")
        return self._reading


def register(spark: "SparkSession") -> None:
    """Make the source known to a session that does not find it by itself."""
    spark.dataSource.register(AntiphonDataSource)
