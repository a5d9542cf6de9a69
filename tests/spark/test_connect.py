"""Sessions that are not made by `spark_session`: a plain one, and Spark Connect, as the how-to says."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from recorded_groups import numbered, room

from antiphon.spark.java import ensure_java

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_200)]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "spark.md"
PATIENCE_S = 300.0


def block(language: str, holding: str) -> str:
    """The block of the page that holds this."""
    page = PAGE.read_text()
    (found,) = [
        code
        for code in re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
        if holding in code
    ]
    return found


def told_by(program: str, environment: dict[str, str]) -> str:
    """What a program prints."""
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3_000:]
    return result.stdout


def test_a_plain_session_works_where_another_python_is_first(tmp_path: Path) -> None:
    """Of an environment that is not active: the first `python3` has no Antiphon."""
    ensure_java()
    (tmp_path / "bin").mkdir()
    stranger = tmp_path / "bin" / "python3"
    stranger.write_text("#!/bin/sh\necho this Python is not the one >&2\nexit 1\n")
    stranger.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    environment |= {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    (tmp_path / "room").mkdir()
    with room(tmp_path / "room") as place:
        journal = place.journal("journal", "orders")
        place.send("orders", numbered(0, 100))
        journal.wait_for(b"99")
        told = told_by(
            block("python", "SparkSession.builder.appName")
            + f"rows = spark.read.format('antiphon').option('endpoint', '{journal.endpoint}').load()\n"
            + "print('found', rows.where('offset > 50').count())\n",
            environment,
        )
    assert "found 50" in told


@contextmanager
def connect_server(folder: Path) -> Iterator[int]:
    """A server of Spark Connect on loopback, started as the page says but for its port; its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    ensure_java()
    (start,) = re.findall(
        r"^\$SPARK_HOME/(sbin/start-connect-server.*)",
        block("sh", "connect-server"),
        re.DOTALL | re.MULTILINE,
    )
    command = f"{Path(pyspark.__path__[0])}/{start.rstrip()} --conf spark.connect.grpc.binding.port={port}"
    environment = {
        **os.environ,
        "SPARK_HOME": pyspark.__path__[0],
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1",  # it ends with its group
        "SPARK_LOG_DIR": str(folder),
        "SPARK_PID_DIR": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with (folder / "told").open("w") as told:
        server = subprocess.Popen(
            ["sh", "-c", command],
            cwd=folder,
            env=environment,
            stdout=told,
            stderr=told,
            start_new_session=True,
        )
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while "Spark Connect server started" not in (folder / "told").read_text():
            assert server.poll() is None, (folder / "told").read_text()[-3_000:]
            assert time.monotonic() < deadline_s, "the server of Spark Connect is not there"
            time.sleep(0.5)
        yield port
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_spark_connect_reads_and_writes(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="needs pyspark[connect]")
    pytest.importorskip("grpc_status", reason="needs pyspark[connect]")
    (tmp_path / "room").mkdir()
    (tmp_path / "server").mkdir()
    with (
        room(tmp_path / "room") as place,
        place.listening("loud") as listener,
        connect_server(tmp_path / "server") as port,
    ):
        journal = place.journal("journal", "orders")
        place.send("orders", numbered(0, 100))
        journal.wait_for(b"99")
        shown = block("pycon", "SparkSession")
        lines = [line[4:] for line in shown.splitlines() if line.startswith(">>> ")]
        lines[-1] = f"print('found', {lines[-1]})"
        program = "\n".join(
            [
                *lines,
                "rows = spark.read.format('antiphon').option('endpoint', 'grpc://127.0.0.1:7000').load()",
                "last = rows.where('offset > 98').select('payload')",
                f"address = '{place.addresses[0]}'",
                "writer = last.write.format('antiphon').option('address', address).option('group', 'loud')",
                "writer.mode('append').save()",
            ]
        )
        program = program.replace("127.0.0.1:15002", f"127.0.0.1:{port}")
        told = told_by(program.replace("grpc://127.0.0.1:7000", journal.endpoint), dict(os.environ))
        assert "found 101" in told
        assert sorted(message.payload for message in listener.take(2)) == [b"98", b"99"]
