"""The same commands on a real cluster: a standalone Spark master and two workers on loopback."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from antiphon.simulator.run import run_seed
from antiphon.spark.java import ensure_java

pytestmark = [pytest.mark.long, pytest.mark.timeout(3_000)]

SPARK_HOME = Path(pyspark.__file__).parent
PATIENCE_S = 180.0
COMMAND_TIMEOUT_S = 1_500
WORKERS = 2


def environment() -> dict[str, str]:
    """What every process of the cluster has; nothing listens outside of this machine."""
    ensure_java()
    return {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        # How a user gives settings of Spark to the commands.
        "PYSPARK_SUBMIT_ARGS": "--executor-memory 1g --conf spark.sql.shuffle.partitions=2 pyspark-shell",
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.2)


class Cluster:
    """A master, its workers, and commands that are given to them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        place = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        master = self._start("master", "org.apache.spark.deploy.master.Master", *place)
        wait_until(lambda: "Starting Spark master" in master.read_text(), "the master is there")
        for number in range(WORKERS):
            size = ("--cores", "1", "--memory", "2g", "--work-dir", str(self.work_of(number)))
            place = ("--host", "127.0.0.1", "--webui-port", "0")
            self._start(
                f"worker{number}", "org.apache.spark.deploy.worker.Worker", *place, *size, self.master
            )
        wait_until(
            lambda: master.read_text().count("Registering worker") == WORKERS, "all workers are registered"
        )

    def work_of(self, worker: int) -> Path:
        return self._folder / f"work{worker}"

    def _start(self, name: str, program: str, *words: str) -> Path:
        """Start one of Spark's own programs, which ends with the test; the file that has what it says."""
        log = self._folder / f"{name}.log"
        process = subprocess.Popen(
            [SPARK_HOME / "bin" / "spark-class", program, *words],
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
            env=environment(),
            cwd=self._folder,
            start_new_session=True,  # it is a shell at first: its children are to end, too
        )
        self._stack.callback(_end, process)
        return log

    def applications(self) -> list[set[str]]:
        """The applications for which each worker has run an executor."""
        return [{path.name for path in self.work_of(number).glob("app-*")} for number in range(WORKERS)]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A verb of `antiphon`, on this cluster."""
        return subprocess.run(
            [sys.executable, "-m", "antiphon", *words, "--master", self.master],
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            env=environment(),
            cwd=self._folder,
            check=False,
        )


def _end(process: "subprocess.Popen[bytes]") -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path_factory.mktemp("cluster"), stack)


def test_ingest_and_check(cluster: Cluster, tmp_path: Path) -> None:
    outcomes = [run_seed(seed, "crash", tmp_path / "traces") for seed in range(4)]
    done = cluster.run("ingest", str(tmp_path / "traces"), "--out", str(tmp_path / "tables"), "--json")
    assert done.returncode == 0, done.stderr
    rows = {one["table"]: one["rows"] for one in map(json.loads, done.stdout.splitlines())}
    lines = sum(path.read_text().count("\n") for path in (tmp_path / "traces").iterdir())
    assert (rows["runs"], rows["events"]) == (4, lines - 4)
    # Both workers took part; they share the folder, as machines of a cluster must.
    assert all(cluster.applications())

    assert all(outcome.is_clean for outcome in outcomes)
    checked = cluster.run("check", str(tmp_path / "tables"), "--out", str(tmp_path / "work"))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_broken_run_is_found_on_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    run_seed(0, "crash", tmp_path / "traces")
    (path,) = (tmp_path / "traces").iterdir()
    lines = path.read_text().splitlines()
    delivery = next(line for line in lines if '"event":"deliver"' in line)
    # The same message a second time at the same process: a promise is broken (2.5).
    place = max(int(found) for line in lines for found in re.findall(r'"position":(\d+)', line)) + 1
    path.write_text("\n".join([*lines, re.sub(r'"position":\d+', f'"position":{place}', delivery)]) + "\n")
    checked = cluster.run(
        "check", str(tmp_path / "traces"), "--out", str(tmp_path / "work"), "--property", "2.5"
    )
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert "2.5" in checked.stdout


def test_a_campaign(cluster: Cluster, tmp_path: Path) -> None:
    words = (
        "campaign",
        "--seeds",
        "0-5",
        "--scenario",
        "crash",
        "--dir",
        str(tmp_path / "campaign"),
        "--json",
    )
    done = cluster.run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert (report["seeds"], report["checked"], report["resumed"]) == (6, 6, 0)
    assert report["failures"] == []
    here = [run_seed(seed, "crash") for seed in range(6)]
    assert report["messages"] == sum(outcome.counts.messages for outcome in here)  # one seed, one run
    assert (tmp_path / "campaign" / "campaign.html").exists()
    again = cluster.run(*words)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["resumed"] == 6
