"""`antiphon config`: the example is fine, faults are told with line, key and expectation, imports work."""

import json
import os
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from command_line import TIMEOUT_S, Run, is_one_line

from antiphon import config
from antiphon.client import ask_status
from antiphon.runtime import key_files
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.status import has_formed


def test_the_example_passes_its_own_check(antiphon: Run, tmp_path: Path) -> None:
    example = antiphon("config", "example")
    assert example.returncode == 0
    (tmp_path / "cluster.toml").write_text(example.stdout)
    done = antiphon("config", "check", "cluster.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 sites, 4 daemons, 2 links: oslo (oslo1, oslo2); lima (lima1); perth (perth1)" in done.stdout


def test_the_example_shows_the_defaults(antiphon: Run) -> None:
    parsed = config.parse(antiphon("config", "example").stdout)
    assert parsed.settings == config.Settings(name="example")
    assert parsed.links[1].packet_bytes == config.LinkConfig(sites=("a", "b")).packet_bytes


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("delta_ms = 5.0", 'delta_ms = "soon"', ("line 7", "cluster.delta_ms", "expected a number")),
        ("delta_ms = 5.0", "delta = 5.0", ("line 7", "delta")),
        ("# packet_bytes = 1400", "packet_bytes = 14", ("packet_bytes", "512")),
        ('sites = ["oslo", "lima"]', 'sites = ["oslo", "rome"]', ("rome", "known")),
        ('address = "127.0.0.1:4820"', 'address = "127.0.0.1"', ("127.0.0.1", "HOST:PORT")),
        ("[cluster]", "[cluster", ("line 5",)),
    ],
)
def test_a_fault_is_one_line(
    antiphon: Run, tmp_path: Path, before: str, after: str, expected: tuple[str, ...]
) -> None:
    text = antiphon("config", "example").stdout
    assert before in text
    (tmp_path / "broken.toml").write_text(text.replace(before, after))
    done = antiphon("config", "check", "broken.toml")
    assert (done.returncode, done.stdout) == (1, "")
    assert is_one_line(done.stderr)
    for word in ("broken.toml", *expected):
        assert word in done.stderr


def test_a_daemon_says_the_same_of_a_broken_file(antiphon: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("[[site]]\nname = 3\n")
    done = antiphon("daemon", "--config", "broken.toml", "--name", "d1")
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert "broken.toml" in done.stderr and "line 2" in done.stderr


# Import ---------------------------------------------------------------------------------------------------

SPREAD = """\
# two sites
DebugFlags = { PRINT EXIT }
Spread_Segment 225.0.1.1:4803 {
    oslo1 10.0.0.1
    oslo2 10.0.0.2
}
Spread_Segment 10.1.0.255:4803 { lima1 10.1.0.1 }
"""


def test_an_imported_file_passes_our_check(antiphon: Run, tmp_path: Path) -> None:
    (tmp_path / "spread.conf").write_bytes(SPREAD.encode() + b"# caf\xe9\n")  # as an old editor wrote it
    done = antiphon("config", "import-spread", "spread.conf")
    assert done.returncode == 0
    told = done.stderr.splitlines()
    assert [line.split(": ")[:2] for line in told] == [
        ["spread.conf", "links"],
        ["spread.conf:2", "DebugFlags"],
        ["spread.conf:3", "ports"],
    ]
    (tmp_path / "cluster.toml").write_text(done.stdout)
    checked = antiphon("config", "check", "cluster.toml")
    assert "2 sites, 3 daemons, 1 link: site1 (oslo1, oslo2); site2 (lima1)" in checked.stdout


def test_an_import_overwrites_only_by_force(antiphon: Run, tmp_path: Path) -> None:
    (tmp_path / "spread.conf").write_text(SPREAD)
    words = ("config", "import-spread", "spread.conf", "--out", "cluster.toml")
    done = antiphon(*words)
    assert (done.returncode, done.stdout) == (0, "")
    wanted = (tmp_path / "cluster.toml").read_text()
    assert config.parse(wanted).daemon_names == ("oslo1", "oslo2", "lima1")
    (tmp_path / "cluster.toml").write_text("mine")
    done = antiphon(*words)
    assert done.returncode == 2
    assert done.stderr == "antiphon: cluster.toml is there already; --force overwrites it\n"
    assert (tmp_path / "cluster.toml").read_text() == "mine"
    assert antiphon(*words, "--force").returncode == 0
    assert (tmp_path / "cluster.toml").read_text() == wanted
    done = antiphon(*words[:-1], "nowhere/cluster.toml")
    assert (done.returncode, is_one_line(done.stderr)) == (2, True)


def test_remarks_and_configuration_as_objects(antiphon: Run, tmp_path: Path) -> None:
    (tmp_path / "spread.conf").write_text(SPREAD + 'RequiredAuthMethods = "IP"\n')
    done = antiphon("config", "import-spread", "spread.conf", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    *remarks, last = map(json.loads, done.stdout.splitlines())
    assert all(remark.pop("kind") == "remark" for remark in remarks)
    assert {tuple(remark) for remark in remarks} == {("line", "subject", "text", "is_warning")}
    assert [(remark["line"], remark["subject"]) for remark in remarks if remark["is_warning"]] == [
        (8, "RequiredAuthMethods")
    ]
    assert last.keys() == {"kind", "text"}
    assert config.parse(last["text"]).daemon_count == 3
    done = antiphon("config", "import-spread", "spread.conf", "--json", "--out", "cluster.toml")
    assert len(done.stdout.splitlines()) == len(remarks)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Spread_Segment 10.0.0.255 {\n a 10.0.0.1\n",
            "spread.conf:3: expected the name or address of a daemon, or }",
        ),
        ("\n\nhello", "spread.conf:3: expected Spread_Segment or an option of Spread, got 'hello'"),
        ("", "spread.conf:1: expected at least one Spread_Segment with a daemon"),
    ],
)
def test_a_wrong_file_is_one_line_and_nothing_is_written(
    antiphon: Run, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "spread.conf").write_text(text)
    done = antiphon("config", "import-spread", "spread.conf", "--out", "cluster.toml", "--force")
    assert (done.returncode, done.stdout) == (2, "")
    assert is_one_line(done.stderr)
    assert done.stderr.startswith(f"antiphon: {message}")
    assert not (tmp_path / "cluster.toml").exists()


def free_port() -> int:
    """A port for Spread such that it, and what we take for two segments from it on, is free now."""
    for port in range(20_000 + os.getpid() % 20_000, 60_000, 20):
        try:
            with ExitStack() as stack:
                for number in range(port, port + 14):
                    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                        stack.enter_context(socket.socket(socket.AF_INET, kind)).bind(("127.0.0.1", number))
            return port
        except OSError:
            continue
    raise AssertionError("no free ports")


def test_an_imported_cluster_runs_beside_spread(antiphon: Run, tmp_path: Path) -> None:
    port = free_port()
    one, two = f"one{os.getpid()}", f"two{os.getpid()}"
    (tmp_path / "spread.conf").write_text(
        f"Spread_Segment 127.0.0.255:{port} {{ {one} 127.0.0.1 }}\n"
        f"Spread_Segment 127.0.0.255:{port + 2} {{ {two} 127.0.0.1 }}\n"
    )
    text = antiphon("config", "import-spread", "spread.conf").stdout
    spread_lines = [line for line in text.splitlines() if line.startswith("spread = ")]
    assert len(spread_lines) == 2
    for line in spread_lines:  # as the remark on ports says
        text = text.replace(f"{line}\n", "")
    result = config.parse(text)
    with ExitStack() as stack:
        for number in (port, port + 1, port + 2, port + 3):  # Spread's
            for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                stack.enter_context(socket.socket(socket.AF_INET, kind)).bind(("127.0.0.1", number))
        for name in (one, two):
            stack.enter_context(Daemon(result, name))
        deadline_s = time.monotonic() + TIMEOUT_S
        places = [place for _, daemon in result.daemons() for place in daemon.clients]
        assert len(places) == 4
        while not has_formed([ask_status(place) for place in places], result.daemon_names):
            assert time.monotonic() < deadline_s
            time.sleep(0.01)


SITE = '[[site]]\nname = "s"\n[[site.daemon]]\nname = "d1"\naddress = "127.0.0.1:4810"\n'


def test_keygen_makes_a_key_that_only_its_owner_reads(antiphon: Run, tmp_path: Path) -> None:
    done = antiphon("config", "keygen", "cluster.key")
    assert (done.returncode, done.stderr) == (0, "")
    file = tmp_path / "cluster.key"
    assert file.stat().st_mode & 0o777 == 0o600
    secret = file.read_text().split()[1]
    assert secret[:8] not in done.stdout
    again = antiphon("config", "keygen", "cluster.key")
    assert again.returncode == 2 and is_one_line(again.stderr)
    assert "it stays" in again.stderr
    assert file.read_text().split()[1] == secret


def test_the_example_comes_with_a_key(antiphon: Run, tmp_path: Path) -> None:
    done = antiphon("config", "example", "--out", "cluster.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "cluster.toml").read_text() == antiphon("config", "example").stdout
    parsed = config.resolved(config.parse((tmp_path / "cluster.toml").read_text()), str(tmp_path))
    assert key_files.keys_of(parsed.security) is not None
    again = antiphon("config", "example", "--out", "cluster.toml")
    assert again.returncode == 2 and is_one_line(again.stderr)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[security]\nkey = "x"\n', ("line 2", "security.key", "key_file")),
        ('[security]\nnext_key_file = "x"\n', ("line 2", "security.next_key_file", "key_file")),
        ("[security]\ninsecure = 1\n", ("line 2", "security.insecure", "a boolean")),
    ],
)
def test_faults_of_the_table_security(
    antiphon: Run, tmp_path: Path, text: str, expected: tuple[str, ...]
) -> None:
    (tmp_path / "bad.toml").write_text(text + SITE)
    done = antiphon("config", "check", "bad.toml")
    assert done.returncode == 1
    assert is_one_line(done.stderr)
    for words in expected:
        assert words in done.stderr
