"""Server processes of peers on loopback: started, waited for, and ended whatever happens."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from antiphon.errors import AntiphonError

_START_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 5.0
_ASK_EVERY_S = 0.02
_LOG = "server.log"


@contextmanager
def running(
    words: Sequence[str], folder: Path, is_ready: Callable[[int], bool]
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a server and wait until `is_ready` says so of its process; it prints to a file in `folder`."""
    with ExitStack() as stack:
        log = stack.enter_context((folder / _LOG).open("wb"))
        # Ctrl-C is for this process, which ends the server after its clients; it must not come between a
        # start and the promise of an end.
        usual = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, start_new_session=True
            )
            stack.callback(_end, process)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
        _wait(process, Path(words[0]).name, folder, is_ready)
        yield process


def serving(name: str, address: str) -> list[str]:
    """The command of a server that is written in Python: `Peer.serve` of the peer of this name."""
    return [sys.executable, "-m", "antiphon.load.peers.worker", "serve", name, address]


def _wait(
    process: "subprocess.Popen[bytes]", name: str, folder: Path, is_ready: Callable[[int], bool]
) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while not is_ready(process.pid):
        if process.poll() is not None:
            said = (folder / _LOG).read_text(errors="replace").split("\n")
            last = next((line for line in reversed(said) if line.strip()), "it said nothing")
            raise AntiphonError(f"{name} ended early: {last.strip()}")
        if time.monotonic() > deadline_s:
            raise AntiphonError(f"{name} did not start within {_START_TIMEOUT_S:.0f} s")
        time.sleep(_ASK_EVERY_S)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """A TCP port of loopback on which nothing listens now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def answers_tcp(port: int) -> bool:
    """Whether something listens on a TCP port of loopback."""
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def answers_unix(path: Path) -> bool:
    """Whether something listens on a unix socket."""
    with socket.socket(socket.AF_UNIX) as caller:
        return caller.connect_ex(str(path)) == 0
