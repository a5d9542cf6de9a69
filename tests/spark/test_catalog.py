"""Tables and views in Spark's catalog: `CREATE TABLE ... USING antiphon OPTIONS (...)`."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType
from recorded_groups import Room, RunningJournal, numbered, room

from antiphon.errors import UsageError
from antiphon.spark.catalog import columns_of, table_of, with_kept
from antiphon.spark.datasource import AntiphonDataSource
from antiphon.spark.foreign import ours
from antiphon.spark.schema import ROWS, WRITTEN

PROPERTIES = {
    "provider": "antiphon",
    "owner": "ann",
    "transient_lastDdlTime": "17",
    "cost": "high",
    "path": "x",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    with room(tmp_path_factory.mktemp("room")) as found:
        yield found


@pytest.fixture(scope="module")
def journal(place: Room) -> RunningJournal:
    found = place.journal("shared", "tea")
    place.send("tea", numbered(0, 100))
    found.wait_for(b"99")
    return found


@pytest.fixture
def table(spark: Any) -> Iterator[Any]:
    """Creates a table, or something like it, that is gone after the test."""
    made: list[tuple[str, str]] = []

    def create(kind: str, name: str, text: str) -> None:
        made.append((kind.split()[-1], name))
        spark.sql(f"CREATE {kind} {name} {text}")

    yield create
    for kind, name in made:
        spark.sql(f"DROP {kind} IF EXISTS {name}")


def test_properties_of_a_table_are_no_options() -> None:
    given = {**PROPERTIES, "option.endpoint": "a:1", "endpoint": "a:1", "option.Start": "5", "Start": "5"}
    assert ours(given) == {"endpoint": "a:1", "start": "5"}
    assert ours({"serialization.format": "1", "path": "x", "start": "5"}) == {"start": "5"}


def test_the_columns_of_a_table_keep_its_options() -> None:
    given = {**PROPERTIES, "option.endpoint": "a:1", "option.start": "5"}
    schema = table_of(given, ("group", "payload"), is_read=True)
    assert columns_of(schema) == ("group", "payload")
    assert with_kept({}, schema) == {"endpoint": "a:1", "start": "5"}
    assert with_kept({"start": "7"}, schema) == {"endpoint": "a:1", "start": "7"}
    assert columns_of(table_of(given, None, is_read=True)) is None
    assert table_of(given, None, is_read=False).fieldNames() == WRITTEN.fieldNames()
    assert with_kept({"start": "7"}, ROWS) == {"start": "7"}


def test_the_identity_of_one_write_is_not_for_a_table() -> None:
    for name in ("query", "batch"):
        with pytest.raises(UsageError, match=f"{name} is the option of one write"):
            table_of({**PROPERTIES, f"option.{name}": "7"}, None, is_read=False)


def test_rows_of_a_table_that_go_elsewhere_do_not_take_its_options_along() -> None:
    schema = table_of({**PROPERTIES, "option.address": "unix:/a", "option.group": "tea"}, None, is_read=False)
    elsewhere = AntiphonDataSource({"address": "unix:/b", "group": "milk"}).writer(schema, overwrite=False)
    assert elsewhere._writing.addresses == ("unix:/b",)
    assert elsewhere._writing.groups == ("milk",)
    inserted = AntiphonDataSource({}).writer(schema, overwrite=False)
    assert (inserted._writing.addresses, inserted._writing.groups) == (("unix:/a",), ("tea",))
    with pytest.raises(UsageError, match="where to"):
        payload = StructType(schema.fields[:1])
        AntiphonDataSource({"address": "unix:/b"}).writer(payload, overwrite=False)


def test_a_table_is_read_and_written(spark: Any, place: Room, journal: RunningJournal, table: Any) -> None:
    options = f"endpoint '{journal.endpoint}', address '{place.addresses[0]}', group 'told', start '1'"
    table("TABLE", "tea", f"USING antiphon OPTIONS ({options}) TBLPROPERTIES ('cost' = 'high')")
    assert spark.sql("SELECT count(*) FROM tea WHERE kind = 'message'").first()[0] == 100
    assert spark.read.option("start", 51).table("tea").count() == 50, "an option of the query counts first"
    with place.listening("told") as listener:
        spark.sql("INSERT INTO tea (payload) VALUES (encode('first', 'utf-8'))")
        spark.sql("INSERT INTO tea (payload, group) SELECT payload, 'told' FROM tea WHERE offset = 100")
        assert [message.payload for message in listener.take(2)] == [b"first", b"99"]


def test_a_table_without_a_journal_is_written_to(spark: Any, place: Room, table: Any) -> None:
    table("TABLE", "sink", f"USING antiphon OPTIONS (address '{place.addresses[0]}', group 'sunk')")
    assert spark.table("sink").columns == ["payload", "group", "groups", "service", "tag"]
    with place.listening("sunk") as listener:
        spark.sql("INSERT INTO sink (payload, tag) VALUES (encode('deep', 'utf-8'), 7)")
        (message,) = listener.take(1)
        assert (message.payload, message.tag) == (b"deep", 7)
    with pytest.raises(AnalysisException, match="the option endpoint is missing"):
        spark.table("sink").collect()


def test_a_view_has_columns_of_its_own(spark: Any, place: Room, journal: RunningJournal, table: Any) -> None:
    table(
        "TEMPORARY VIEW", "some",
        f"(payload BINARY, offset BIGINT) USING antiphon OPTIONS (endpoint '{journal.endpoint}')",
    )  # fmt: skip
    row = spark.sql("SELECT * FROM some WHERE offset = 100").first()
    assert row.asDict() == {"payload": b"99", "offset": 100}
    table(
        "TEMPORARY VIEW", "words",
        f"(payload STRING) USING antiphon OPTIONS (address '{place.addresses[0]}', group 'spoken')",
    )  # fmt: skip
    with place.listening("spoken") as listener:
        spark.sql("INSERT INTO words VALUES ('text')")
        assert [message.payload for message in listener.take(1)] == [b"text"]


def test_a_table_with_declared_columns_says_why_it_has_no_options(spark: Any, table: Any) -> None:
    table("TABLE", "declared", "(payload BINARY) USING antiphon OPTIONS (endpoint 'a:1', group 'tea')")
    with pytest.raises(AnalysisException, match="in CREATE TABLE, leave out the list of columns"):
        spark.table("declared").collect()
    with pytest.raises(AnalysisException, match="in CREATE TABLE, leave out the list of columns"):
        spark.sql("INSERT INTO declared SELECT encode('x', 'utf-8')")


def test_columns_that_a_journal_has_not_are_told(spark: Any) -> None:
    for schema, told in (
        ("offset int", "the column offset is bigint, not int"),
        ("size int", "no column 'size'"),
    ):
        with pytest.raises(AnalysisException, match=told):
            spark.read.format("antiphon").schema(schema).options(endpoint="a:1").load().collect()
