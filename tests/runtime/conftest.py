"""The fixture that the daemon tests share."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from local_cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Cluster]:
    """A cluster that ends with the test; a daemon that ended by a mistake of its own fails the test."""
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
