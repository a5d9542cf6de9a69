"""What holds for every verb: help, exit codes, one clear line for an error."""

import subprocess
from importlib.metadata import version

import pytest
from command_line import COMMAND, Run, is_one_line

VERBS = (
    "demo", "daemon", "status", "send", "listen", "chat", "flood", "simulate",
    "config check", "config example", "bench throughput", "bench latency",
)  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(antiphon: Run, verb: str) -> None:
    done = antiphon(*verb.split(), "--help")
    assert done.returncode == 0
    example = done.stdout.split("Example:")[1]
    assert f"antiphon {verb}" in example


def test_version(antiphon: Run) -> None:
    assert antiphon("--version").stdout == f"antiphon {version('antiphon')}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("sing",),
        ("listen",),
        ("listen", "chat", "--count", "0"),
        ("listen", "chat", "--loud"),
        ("send", "chat", "--service", "certified"),
        ("status", "--address", "smoke:signals"),
        ("status", "--address", "tcp:localhost"),
        ("chat", "tea", "--name", "much-too-long-a-name"),
        ("flood", "--size", "-1"),
        ("flood", "no spaces"),
        ("simulate", "--seeds", "x-y"),
        ("simulate", "--seeds", "9-3"),
        ("simulate", "--seeds", "0-1", "--scenario", "utopia"),
        ("config", "check", "absent.toml"),
        ("daemon", "--config", "absent.toml", "--name", "d1"),
        ("bench", "throughput", "--case", "moon"),
        ("demo", "--daemons", "2"),
        ("demo", "--sites", "1"),
        ("demo", "--seconds", "soon"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(antiphon: Run, words: tuple[str, ...]) -> None:
    done = antiphon(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert is_one_line(done.stderr), done.stderr


@pytest.mark.parametrize("group", ["no spaces", "#only-half", "", "x" * 32])
def test_a_bad_group_is_wrong_use(antiphon: Run, addresses: list[str], group: str) -> None:
    for words in (("send", group), ("listen", group)):
        done = antiphon(*words, "--address", addresses[0], stdin="a line\n")
        assert (done.returncode, done.stdout) == (2, "")
        assert is_one_line(done.stderr), done.stderr


def test_a_daemon_that_is_not_there_is_a_fault(antiphon: Run) -> None:
    for verb in (("status",), ("send", "chat"), ("listen", "chat"), ("chat", "tea"), ("flood",)):
        done = antiphon(*verb, "--address", "unix:nobody.sock")
        assert (done.returncode, done.stdout) == (1, ""), verb
        assert is_one_line(done.stderr)
        assert "nobody.sock" in done.stderr


def test_debug_adds_the_traceback(antiphon: Run) -> None:
    done = antiphon("status", "--address", "unix:nobody.sock", "--debug")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert is_one_line(done.stderr[done.stderr.rindex("antiphon: ") :])


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = f"set -o pipefail; {' '.join(COMMAND)} config example | head -n 0; exit ${{PIPESTATUS[0]}}"
    for _ in range(3):
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
