"""One Spark session for all tests that need one: its start is most of what they cost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder run in one process, so that they share the session."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from antiphon.spark.session import QUICK_JAVA_OPTIONS, spark_session

    session = spark_session(
        "tests",
        "local[2,4]",
        {
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.driver.extraJavaOptions": QUICK_JAVA_OPTIONS,
        },
    )
    yield session
    session.stop()
