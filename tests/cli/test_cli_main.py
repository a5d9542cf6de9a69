"""What holds for every verb: help, exit codes, one clear line for an error."""

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest
from command_line import COMMAND, TIMEOUT_S, Run, Start, is_one_line

from antiphon.cli import entry

VERBS = (
    "demo", "daemon", "status", "explain", "send", "listen", "chat", "flood", "simulate",
    "journal", "check", "report", "ingest", "campaign", "lab", "config check", "config example",
    "config import-spread", "config keygen", "bench throughput", "bench latency", "bench priority",
    "bench spread", "bench peers",
)  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(antiphon: Run, verb: str) -> None:
    done = antiphon(*verb.split(), "--help")
    assert done.returncode == 0
    example = re.split("Examples?:", done.stdout)[1]
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
        ("flood", "--member-address", "smoke:signals"),
        ("flood", "--rate", "-1"),
        ("send", "no spaces"),
        ("simulate", "--seeds", "0", "--trace", "/dev/null/traces"),
        ("bench", "throughput", "--size", "16777217"),
        ("bench", "latency", "--size", "16777217"),
        ("config", "check", "."),
        ("simulate", "--seeds", "x-y"),
        ("simulate", "--seeds", "9-3"),
        ("simulate", "--seeds", "0-1", "--scenario", "utopia"),
        ("config", "check", "absent.toml"),
        ("daemon", "--config", "absent.toml", "--name", "d1"),
        ("bench", "throughput", "--case", "moon"),
        ("bench", "peers", "--peer", "pigeon"),
        ("demo", "--daemons", "5"),
        ("demo", "--sites", "1"),
        ("demo", "--seconds", "soon"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(antiphon: Run, words: tuple[str, ...]) -> None:
    done = antiphon(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert is_one_line(done.stderr), done.stderr


@pytest.mark.parametrize("words", [(), ("config",), ("bench",)])
def test_without_a_verb_the_verbs_are_shown(antiphon: Run, words: tuple[str, ...]) -> None:
    done = antiphon(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: " + " ".join(["antiphon", *words]))
    assert "Commands:\n" in done.stderr


def test_an_error_names_the_help_that_helps(antiphon: Run) -> None:
    assert "(see antiphon bench latency --help)" in antiphon("bench", "latency", "--size", "x").stderr


@pytest.mark.parametrize("group", ["no spaces", "#only-half", "", "x" * 32])
def test_a_bad_group_is_wrong_use(antiphon: Run, addresses: list[str], group: str) -> None:
    for words in (("send", group), ("listen", group)):
        done = antiphon(*words, "--address", addresses[0], stdin="a line\n")
        assert (done.returncode, done.stdout) == (2, "")
        assert is_one_line(done.stderr), done.stderr


def test_a_daemon_that_is_not_there_is_a_fault(antiphon: Run) -> None:
    for verb in (
        ("status",),
        ("explain",),
        ("send", "chat"),
        ("listen", "chat"),
        ("chat", "tea"),
        ("flood",),
    ):
        done = antiphon(*verb, "--address", "unix:nobody.sock")
        assert (done.returncode, done.stdout) == (1, ""), verb
        assert is_one_line(done.stderr)
        assert "nobody.sock" in done.stderr


def test_debug_adds_the_traceback(antiphon: Run) -> None:
    done = antiphon("status", "--address", "unix:nobody.sock", "--debug")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert is_one_line(done.stderr[done.stderr.rindex("antiphon: ") :])


@pytest.mark.parametrize("words", ["config example", "--help", "flood --help", "status --address {}"])
def test_a_reader_that_goes_away_is_no_error(addresses: list[str], words: str) -> None:
    command = " ".join([*COMMAND, words.format(addresses[0])])
    # The reader is gone for certain before anything is printed.
    script = f"exec 3> >(exec true); wait $!; {command} >&3"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", ["simulate --seeds 0-9999 --jobs 2", "flood --seconds 100 --address {}"])
def test_ctrl_c_ends_a_whole_crew_quietly(start: Start, addresses: list[str], words: str) -> None:
    process = start(*words.format(addresses[0]).split())
    while not children(process.pid):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    for child in children(process.pid):
        with suppress(ProcessLookupError):  # a terminal tells the whole process group
            os.kill(child, signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out, err) == (130, "", "")


def test_ctrl_c_while_loading_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("antiphon.cli.main.run", interrupted)
    with pytest.raises(SystemExit) as end:
        entry.run()
    assert end.value.code == 130


def children(parent: int) -> list[int]:
    """The processes that a process has started."""
    return [int(word) for word in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
