"""The access list, tokens and TLS as one meets them on the command line."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Run, is_one_line
from guarded import Authority, guarded, with_tls, write_token
from msgspec import structs

from antiphon.client import ask_status
from antiphon.config import as_toml
from antiphon.errors import AntiphonError

LIST = f"""
[[user]]
name = "boss"
unix = [{os.getuid()}]

[[user]]
name = "clerk"
token_file = "clerk.token"

[[allow]]
users = ["boss"]
groups = ["*"]
may = ["join", "send", "lock", "call", "status", "trace", "attach", "reload"]

[[allow]]
users = ["clerk"]
groups = ["tea"]
may = ["join", "send"]
"""


class Office:
    """A daemon in a process of its own, with TLS and an access list, and the clerk's token."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        papers = Authority(directory)
        self.roots = papers.roots
        self.token_file = directory / "clerk.token"
        self.token = write_token(self.token_file)
        self.list = directory / "access.toml"
        config = guarded(directory, LIST)
        (site,) = config.sites
        port = 20_000 + os.getpid() % 10_000
        (daemon,) = site.daemon
        daemon = structs.replace(daemon, clients=(*daemon.clients, f"tcp:127.0.0.1:{port}"))
        config = structs.replace(config, sites=(structs.replace(site, daemon=(daemon,)),))
        # Names of files are relative to the folder of the configuration.
        config = structs.replace(config, security=structs.replace(config.security, access_file="access.toml"))
        (directory / "cluster.toml").write_text(as_toml(with_tls(config, papers)))
        self.unix, self.tls = daemon.clients[0], f"tls:127.0.0.1:{port}"
        self.log = directory / "daemon.log"
        words = ["--config", str(directory / "cluster.toml"), "--name", "d1"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([sys.executable, "-m", "antiphon", "daemon", *words], stderr=log)
        deadline_s = time.monotonic() + 30
        while not self.is_up():
            assert self.process.poll() is None and time.monotonic() < deadline_s, self.log.read_text()
            time.sleep(0.05)

    def is_up(self) -> bool:
        try:
            return bool(ask_status(self.unix))
        except AntiphonError:
            return False

    @property
    def clerk(self) -> list[str]:
        return ["--address", self.tls, "--tls-ca", self.roots, "--token-file", str(self.token_file)]


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    office = Office(tmp_path)
    yield office
    office.process.terminate()
    office.process.wait(20)


def test_a_token_is_made_in_a_file_of_ones_own(antiphon: Run, tmp_path: Path) -> None:
    path = tmp_path / "new.token"
    done = antiphon("config", "token", str(path))
    assert done.returncode == 0 and path.read_text().strip() not in done.stdout
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and len(path.read_text().strip()) >= 40
    before = path.read_text()
    again = antiphon("config", "token", str(path))
    assert again.returncode == 2 and is_one_line(again.stderr) and path.read_text() == before


def test_verbs_show_who_they_are(antiphon: Run, office: Office) -> None:
    assert antiphon("send", "tea", *office.clerk, stdin="hot\n").returncode == 0
    shown = antiphon("status", "--address", office.unix)
    assert "access list: 2 users, 2 rules, 1 tokens; connected: none" in shown.stdout
    for words, said in (
        (("send", "coffee"), "user 'clerk' may not send to 'coffee'"),
        (("listen", "coffee"), "user 'clerk' may not join 'coffee'"),
        (("status",), "user 'clerk' may not see the status"),
        (("explain",), "user 'clerk' may not see the status"),
        (("call", "tea", "?"), "user 'clerk' may not call 'tea'"),
        (("config", "reload"), "user 'clerk' may not reload"),
    ):
        done = antiphon(*words, *office.clerk, stdin="a line\n")
        assert done.returncode == 1, (words, done)
        assert is_one_line(done.stderr) and said in done.stderr, (words, done.stderr)
    nobody = antiphon("send", "tea", "--address", office.tls, "--tls-ca", office.roots, stdin="x\n")
    assert nobody.returncode == 1 and "neither a certificate nor a token" in nobody.stderr
    untrusting = antiphon("send", "tea", "--address", office.tls, stdin="x\n")
    assert untrusting.returncode == 1 and "certificate" in untrusting.stderr
    assert is_one_line(untrusting.stderr)


def test_the_environment_says_the_same(
    antiphon: Run, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ("--address", office.tls)
    monkeypatch.setenv("ANTIPHON_TLS_CA", office.roots)
    monkeypatch.setenv("ANTIPHON_TOKEN_FILE", str(office.token_file))
    assert antiphon("send", "tea", *there, stdin="hot\n").returncode == 0
    monkeypatch.setenv("ANTIPHON_TOKEN_FILE", str(office.directory / "none.token"))
    done = antiphon("send", "tea", *there, stdin="hot\n")
    assert done.returncode == 2 and is_one_line(done.stderr) and "cannot read" in done.stderr


def test_reload_says_what_became_of_it(antiphon: Run, office: Office) -> None:
    done = antiphon("config", "reload", "--address", office.unix)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 users, 2 rules, 1 tokens" in done.stdout
    office.list.write_text(LIST.replace('"send"', '"sing"'))
    wrong = antiphon("config", "reload", "--address", office.unix)
    assert wrong.returncode == 1 and wrong.stdout == "" and is_one_line(wrong.stderr)
    assert "nothing has changed" in wrong.stderr and "access.toml, line" in wrong.stderr
    assert antiphon("send", "tea", *office.clerk, stdin="hot\n").returncode == 0


def test_a_signal_has_it_read_again(antiphon: Run, office: Office) -> None:
    office.list.write_text(LIST.replace('"tea"', '"coffee"'))
    office.process.send_signal(signal.SIGHUP)
    deadline_s = time.monotonic() + 20
    while "read again: the access list has" not in office.log.read_text():
        assert time.monotonic() < deadline_s and office.process.poll() is None
        time.sleep(0.05)
    assert antiphon("send", "coffee", *office.clerk, stdin="black\n").returncode == 0
    office.list.write_text("[[user]")
    office.process.send_signal(signal.SIGHUP)
    while "the access list stays as it was" not in office.log.read_text():
        assert time.monotonic() < deadline_s and office.process.poll() is None
        time.sleep(0.05)
    assert antiphon("send", "coffee", *office.clerk, stdin="black\n").returncode == 0


def test_no_secret_is_in_logs_traces_status_or_words(antiphon: Run, office: Office, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    listening = subprocess.Popen(
        [sys.executable, "-m", "antiphon", "--debug", "listen", "tea", *office.clerk, "--count", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline_s = time.monotonic() + 30
        while "tea" not in (told := ask_status(office.unix))["groups"]:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        words = Path(f"/proc/{listening.pid}/cmdline").read_text()
        words += Path(f"/proc/{office.process.pid}/cmdline").read_text()
        assert (
            antiphon("send", "tea", "--trace", str(traces), "--address", office.unix, stdin="x\n").returncode
            == 0
        )
        said = "".join(listening.communicate(timeout=30))
    finally:
        listening.kill()
    refused = antiphon("--debug", "status", *office.clerk)
    shown = json.dumps(told) + words + said + refused.stdout + refused.stderr + office.log.read_text()
    shown += "".join(path.read_text() for path in traces.iterdir())
    assert "clerk" in shown and len(list(traces.iterdir())) == 1
    assert office.token not in shown
    for key in office.directory.glob("*.key"):
        body = "".join(key.read_text().splitlines()[1:-1])
        assert body[:40] not in shown.replace("\n", "")


def test_plain_tcp_for_other_machines_stops_a_daemon_with_one_line(antiphon: Run, office: Office) -> None:
    text = (office.directory / "cluster.toml").read_text()
    changed = text.replace(office.tls, "tcp:0.0.0.0:0").replace("d1.sock", "d2.sock")
    path = office.directory / "open.toml"
    path.write_text(changed.replace('address = "127.0.0.1:', 'address = "127.0.0.2:'))
    done = antiphon("daemon", "--config", str(path), "--name", "d1")
    assert done.returncode == 2 and is_one_line(done.stderr), done
    assert "tcp:0.0.0.0:0 is plain TCP that other machines may reach" in done.stderr
    odd = antiphon("daemon", "--config", str(path), "--name", "d1", "--insecure")
    assert odd.returncode == 2 and "a file has it in its table [security]" in odd.stderr
