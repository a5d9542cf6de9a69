"""One Spark session for all tests that need one: its start is most of what they cost."""

import os
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Any]:
    if worker_id != "master":  # one of several processes, which share the folder above
        try:
            os.close(os.open(tmp_path_factory.getbasetemp().parent / "has-spark", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pytest.fail("another process of this run has a Spark session: see tests/conftest.py")
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
