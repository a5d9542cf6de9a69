"""Every page of the documentation runs literally, from its first shell block to its last.

Each page runs in one shell, without anything that an earlier page has left: page_shell.py says how. What is
left out, and why, is listed here and nowhere else.
"""

from pathlib import Path

import pytest
from msgspec import Struct
from page_shell import Finished, commands_of, run_script, script_of, why_not
from pages import PAGES, blocks_of, name_of

FAST_TIMEOUT_S = 240
SLOW_TIMEOUT_S = 3000
"""Only so that a fault does not hang; on an idle machine pages take a small part of this."""


class Left(Struct, frozen=True):
    """Commands of a page that begin with a text, and why they are left out."""

    page: str
    command: str
    why: str


NEVER = [
    Left("README.md", "make test", "it would run this test again"),
    Left("docs/how-to/measure.md", "sudo apt-get", "installs servers on this machine"),
    Left("docs/how-to/measure.md", "sudo systemctl", "stops servers of this machine"),
    Left("docs/how-to/measure.md", "pip install", "needs the network, and changes this environment"),
    Left("docs/how-to/soak.md", "make soak SECONDS_OF_SOAK=7200", "takes two hours"),
    Left(
        "docs/how-to/spark.md",
        "$SPARK_HOME/sbin/start-connect-server.sh",
        "needs the packages of pyspark[connect]; tests/spark/test_connect.py starts such a server",
    ),
    Left("docs/how-to/spark-cluster.md", "antiphon check hdfs:", "needs a Hadoop cluster"),
    Left("docs/how-to/spark-cluster.md", "pip install venv-pack", "needs the network, for a Hadoop cluster"),
    Left("docs/how-to/spark-cluster.md", "mkdir environment", "follows the line before"),
    Left("docs/how-to/spark-cluster.md", "./bin/docker-image-tool.sh", "needs docker and a registry"),
    Left(
        "docs/how-to/spark-cluster.md", "antiphon campaign --seeds 0-9999 --dir /shared", "needs Kubernetes"
    ),
]

LATER = [
    Left("README.md", "make demo", "a minute"),
    Left("README.md", "make soak", "even the shortest soak takes two minutes"),
    Left("docs/how-to/trace-a-cluster.md", "antiphon check", "starts Spark"),
    Left("docs/how-to/trace-a-cluster.md", "antiphon report", "starts Spark"),
]

SLOW = {
    "docs/explanation/conformance.md": "simulates and starts Spark",
    "docs/how-to/analyse-a-run.md": "simulates and starts Spark",
    "docs/how-to/fuzz.md": "a cluster under thousands of mutants",
    "docs/how-to/measure.md": "benchmarks",
    "docs/how-to/priorities.md": "a benchmark",
    "docs/how-to/run-campaigns.md": "simulates and starts Spark",
    "docs/how-to/soak.md": "a cluster under load and crashes",
    "docs/how-to/spark-cluster.md": "starts a cluster of Spark",
    "docs/how-to/test-on-real-networks.md": "plays plans in real time",
}
"""Pages that run in `make test-long` only, and what takes so long there."""

SHOWN = {
    "docs/tutorial.md": [
        "cluster.toml: fine",
        "tea #olga#oslo1 safe: green\ntea #olga#oslo1 safe: black\ntea #olga#oslo1 safe: mint\n",
        "in Perth:",
        "('lunch', 'news')",
        "laptop (",
        "agreed: no file anywhere\n",
    ],
}
"""What a page must have printed at its end, beyond the success of all of its commands."""


def left_out(path: Path, *lists: list[Left]) -> list[str]:
    """How the commands begin that are left out of a page."""
    return [left.command for lefts in lists for left in lefts if left.page == name_of(path)]


def pages_with_commands() -> list[Path]:
    """The pages that have a shell block."""
    return [
        path for path in PAGES if any(block.language == "sh" for block in blocks_of(path.read_text(), ""))
    ]


def check(path: Path, folder: Path, without: list[str], timeout_s: int) -> None:
    """Run a page and see that nothing in it failed."""
    if reason := why_not():
        pytest.skip(reason)
    done = run_script(script_of(path.read_text(), name_of(path), without), folder, timeout_s)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    for text in SHOWN.get(name_of(path), ()):
        assert text in done.stdout, done.stdout


FAST = [path for path in pages_with_commands() if name_of(path) not in SLOW]
LONG = [path for path in pages_with_commands() if name_of(path) in SLOW or left_out(path, LATER)]


@pytest.mark.parametrize("path", FAST, ids=name_of)
def test_a_page_runs(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path, left_out(path, NEVER, LATER), FAST_TIMEOUT_S)


@pytest.mark.long
@pytest.mark.parametrize("path", LONG, ids=name_of)
def test_a_page_runs_with_all_that_takes_long(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path, left_out(path, NEVER), SLOW_TIMEOUT_S)


# The list of what is left out, and the checks themselves ---------------------------------------------------


@pytest.mark.parametrize("left", NEVER + LATER, ids=lambda left: f"{left.page}: {left.command}")
def test_what_is_left_out_is_on_its_page(left: Left) -> None:
    page = next(path for path in PAGES if name_of(path) == left.page)
    commands = [
        command
        for block in blocks_of(page.read_text(), left.page)
        if block.language == "sh"
        for command in commands_of(block)
    ]
    assert any(command.startswith(left.command) for command in commands)


def test_slow_pages_are_there() -> None:
    assert set(SLOW) <= {name_of(path) for path in pages_with_commands()}


def test_programs_that_are_saved_are_run() -> None:
    for path in PAGES:
        blocks = blocks_of(path.read_text(), name_of(path))
        for at, block in enumerate(blocks):
            if block.language == "python" and block.title:
                later = [after.code for after in blocks[at:] if after.language == "sh"]
                assert any(f"python {block.title}" in code for code in later), block.place


FAULTS = ["false", "echo $unset", "antiphon status", "no-such-program", "test -e ../script"]
PAGE = """\
Save this as `words.txt`:
```text title="words.txt"
one $HOME
```
```sh
cat words.txt
slow \\
  --and-long
pwd; ls ~ /tmp/antiphon.sock || echo nobody else
sleep 1000 &
```
```text
exit 9
```
```sh
{last}
```
"""


def run_page(last: str, folder: Path) -> Finished:
    """Run the page above with another last line."""
    return run_script(script_of(PAGE.format(last=last), "page.md", ["slow"]), folder, FAST_TIMEOUT_S)


def test_a_page_that_works_is_fine(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    done = run_page("test -f Makefile; make setup; . .venv/bin/activate; antiphon --version", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("one $HOME\n/tmp/antiphon\n/tmp/home:\nnobody else\n")


@pytest.mark.parametrize("last", FAULTS)
def test_a_page_that_does_not_work_is_found(last: str, tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    done = run_page(last, tmp_path)
    assert done.returncode != 0
    assert ">>> page.md" in done.stderr
