"""`antiphon daemon`: starts, stops cleanly, and says in one line why it cannot."""

import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_line import COMMAND, TIMEOUT_S, Run, environment, is_one_line

from antiphon.runtime.local import local_config


def cluster_file(folder: Path) -> Path:
    """A cluster of one site on a free port, its clients' socket in the folder."""
    daemon = local_config(1, folder).daemons()[0][1]
    file = folder / "cluster.toml"
    place = f'address = "{daemon.address}"\nclients = ["unix:d1.sock"]\n'
    file.write_text(f'[[site]]\nname = "here"\n[[site.daemon]]\nname = "d1"\n{place}')
    return file


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_stops_it_cleanly(antiphon: Run, tmp_path: Path, number: signal.Signals, code: int) -> None:
    words = [*COMMAND, "daemon", "--config", cluster_file(tmp_path).name, "--name", "d1"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment())
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while antiphon("status", "--address", "unix:d1.sock").returncode and time.monotonic() < deadline:
            assert process.poll() is None
        second = antiphon("daemon", "--config", "cluster.toml", "--name", "d1")
        assert second.returncode == 1
        assert is_one_line(second.stderr)
        process.send_signal(number)
        _, log = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code
    assert "Traceback" not in log
    assert not (tmp_path / "d1.sock").exists()


def test_without_a_file_it_is_one_daemon_alone(antiphon: Run, tmp_path: Path) -> None:
    words = [*COMMAND, "daemon", "--clients", "unix:alone.sock", "--name", "solo"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment())
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while (told := antiphon("status", "--address", "unix:alone.sock")).returncode:
            assert process.poll() is None and time.monotonic() < deadline
        assert "daemon solo" in told.stdout and "whole: 1 of 1 daemon" in told.stdout
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)


@pytest.mark.parametrize(
    "words",
    [
        ["--clients", "teapot"],
        ["--clients", "unix:x.sock", "--cluster", "tea"],
        ["--clients", "unix:x.sock", "--config", "cluster.toml", "--name", "d1"],
        ["--reach", "tcp:127.0.0.1:4811"],
    ],
)
def test_options_that_do_not_go_together_are_wrong_use(antiphon: Run, words: list[str]) -> None:
    done = antiphon("daemon", *words)
    assert done.returncode == 2
    assert is_one_line(done.stderr)


def test_an_unknown_daemon_is_wrong_use(antiphon: Run, tmp_path: Path) -> None:
    done = antiphon("daemon", "--config", cluster_file(tmp_path).name, "--name", "d9")
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert "known: d1" in done.stderr


def test_a_daemon_without_a_key_does_not_leave_its_machine(antiphon: Run, tmp_path: Path) -> None:
    file = cluster_file(tmp_path)
    file.write_text(file.read_text().replace("127.0.0.1", "0.0.0.0"))
    done = antiphon("daemon", "--config", file.name, "--name", "d1")
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert "antiphon config keygen" in done.stderr and "insecure = true" in done.stderr


def test_a_key_that_others_can_read_is_refused(antiphon: Run, tmp_path: Path) -> None:
    file = cluster_file(tmp_path)
    file.write_text(f'[security]\nkey_file = "my.key"\n{file.read_text()}')
    antiphon("config", "keygen", "my.key")
    secret = (tmp_path / "my.key").read_text().split()[1]
    (tmp_path / "my.key").chmod(0o644)
    done = antiphon("daemon", "--config", file.name, "--name", "d1")
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert "my.key: others can read or change it (mode 0644)" in done.stderr
    assert secret not in done.stderr


def test_status_says_how_packets_are_sealed_and_sighup_brings_the_next_key(
    antiphon: Run, tmp_path: Path
) -> None:
    file = cluster_file(tmp_path)
    file.write_text(f'[security]\nkey_file = "a.key"\nnext_key_file = "b.key"\n{file.read_text()}')
    antiphon("config", "keygen", "a.key")
    words = [*COMMAND, "daemon", "--config", file.name, "--name", "d1"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment())
    try:
        told = said(antiphon, "packets between daemons are sealed with key")
        assert "next key" not in told
        antiphon("config", "keygen", "b.key")
        process.send_signal(signal.SIGHUP)
        said(antiphon, "all daemons have it")
    finally:
        process.terminate()
        _, log = process.communicate(timeout=TIMEOUT_S)
    for name in ("a.key", "b.key"):
        assert (tmp_path / name).read_text().split()[1] not in log + told


def test_an_insecure_daemon_says_so(antiphon: Run, tmp_path: Path) -> None:
    file = cluster_file(tmp_path)
    file.write_text("[security]\ninsecure = true\n" + file.read_text().replace("127.0.0.1", "0.0.0.0"))
    words = [*COMMAND, "daemon", "--config", file.name, "--name", "d1"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment())
    try:
        said(antiphon, "INSECURE: packets between daemons are not sealed")
    finally:
        process.terminate()
        _, log = process.communicate(timeout=TIMEOUT_S)
    assert "not sealed (insecure = true)" in log


def said(antiphon: Run, words: str) -> str:
    """What `antiphon status` says once it has these words."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        told = antiphon("status", "--address", "unix:d1.sock").stdout
        if words in told:
            return told
        assert time.monotonic() < deadline, told


def test_a_cluster_without_a_file_needs_a_key_beyond_its_machine(antiphon: Run, tmp_path: Path) -> None:
    words = ("daemon", "--cluster", "tea", "--interface", "127.0.0.1")
    missing = antiphon(*words, "--key-file", "no.key")
    assert missing.returncode == 2 and is_one_line(missing.stderr)
    assert "no.key: No such file" in missing.stderr
    wrong = antiphon("daemon", "--config", cluster_file(tmp_path).name, "--name", "d1", "--insecure")
    assert wrong.returncode == 2 and "[security]" in wrong.stderr
