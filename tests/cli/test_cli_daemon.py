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


def test_an_unknown_daemon_is_wrong_use(antiphon: Run, tmp_path: Path) -> None:
    done = antiphon("daemon", "--config", cluster_file(tmp_path).name, "--name", "d9")
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert "known: d1" in done.stderr
