"""A real daemon for the client library to talk to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """One daemon, d1, with a unix and a TCP listener."""
    with Daemon(local_config(1, tmp_path, tcp=True), "d1") as daemon:
        yield daemon


@pytest.fixture
def address(daemon: Daemon) -> str:
    """Its unix listener."""
    return daemon.places[0]
