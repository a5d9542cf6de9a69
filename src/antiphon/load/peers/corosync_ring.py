"""Corosync: a ring of one node in namespaces of its own, closed process groups (CPG) through ctypes.

Corosync puts all messages of a group into one order and tells of its members, as we do. It does not
promise: safe delivery, which it does not implement, and anything for daemons that are not all in one ring.
A sender is a member of the group and gets its own messages, too; here it leaves them in C.

Corosync has fixed names for its sockets and folders. So it runs in a network and a mount namespace of its
own, where it meets neither a Corosync of this machine nor the network, and senders and receivers are
started in there. That takes root, or a kernel that lets every user make user namespaces.
"""

import ctypes
import os
import select
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from antiphon.errors import AntiphonError
from antiphon.load.peers import servers
from antiphon.load.peers.peer import Peer, Place, find_program
from antiphon.load.peers.work import CHANNEL, LOOK_S, Count, Stream, Work, sleep
from antiphon.load.plan import Received, Sent

_LIBRARY = "libcpg.so.4"
_CONFIG = """\
totem {{
  version: 2
  cluster_name: bench
  transport: knet
  crypto_cipher: none
  crypto_hash: none
}}
nodelist {{
  node {{
    ring0_addr: 127.0.0.1
    name: one
    nodeid: 1
  }}
}}
logging {{
  to_stderr: yes
  to_logfile: no
  to_syslog: no
}}
system {{
  sched_rr: no
  move_to_root_cgroup: no
  state_dir: {folder}
}}
"""
_INSIDE = """\
set -e
ip link set lo up
for private in /run /dev/shm; do mount -t tmpfs none $private; done
mkdir -p /run/lock
exec "$0" -f -c "$1"
"""
"""What the shell does in the new namespaces; files of the protocol's memory vanish with them."""

_OK, _TRY_AGAIN = 1, 6
_AGREED = 2
_DISPATCH_ALL = 2
_NAME_BYTES = 128
_FULL_PAUSE_MS = 1
_JOIN_TIMEOUT_S = 10.0


class CorosyncRing(Peer):
    """corosync and its C library, which has no Python binding of its makers."""

    name = "corosync"
    programs: ClassVar[dict[str, str]] = {
        "corosync": "corosync",
        "unshare": "util-linux",
        "nsenter": "util-linux",
        "ip": "iproute2",
    }

    version_word = "-v"

    def missing(self) -> str:
        """What is not installed, or that this user cannot make namespaces."""
        if lacks := super().missing():
            return lacks
        try:
            ctypes.CDLL(_LIBRARY)
        except OSError:
            return f"no {_LIBRARY}; apt-get install libcpg4"
        if subprocess.run([*_unshare(), "true"], capture_output=True, check=False).returncode:
            return "no right to make namespaces; run it as root"
        return ""

    def versions(self) -> dict[str, str]:
        """Of Corosync alone."""
        return {name: text for name, text in super().versions().items() if name == self.name}

    @contextmanager
    def server(self, folder: Path) -> Iterator[Place]:
        """A ring of one node."""
        config = folder / "corosync.conf"
        config.write_text(_CONFIG.format(folder=folder))
        program = find_program("corosync") or "corosync"
        words = [*_unshare(), "sh", "-c", _INSIDE, program, str(config)]
        with servers.running(words, folder, _has_groups) as process:
            yield Place("", _enter(process.pid))

    def send(self, work: Work, address: str) -> Sent:
        """A `cpg_mcast_joined` a message; it is refused while too much is under way."""
        member = _Member(None)
        stream = Stream(work)
        for burst in stream:
            for payload in burst:
                member.send(payload)
            member.dispatch()
            sleep(stream.pause_s)
        member.close()
        return stream.report()

    def receive(self, work: Work, address: str, say_ready: Callable[[], None]) -> Received:
        """A member of the group."""
        count = Count(work)
        member = _Member(count.take)
        say_ready()
        while not count.is_over:
            if member.wait(LOOK_S):
                member.dispatch()
            else:
                count.look()
        member.close()
        return count.report()


def _has_groups(process: int) -> bool:
    """Whether the process has become the server, in a namespace of its own, and serves groups."""
    try:
        if os.readlink(f"/proc/{process}/ns/net") == os.readlink("/proc/self/ns/net"):
            return False
        return "@cpg" in Path(f"/proc/{process}/net/unix").read_text()
    except OSError:
        return False


def _unshare() -> list[str]:
    words = [find_program("unshare") or "unshare", "--net", "--mount"]
    return words if os.geteuid() == 0 else [*words, "--map-root-user"]


def _enter(process: int) -> tuple[str, ...]:
    words = (find_program("nsenter") or "nsenter", f"--target={process}", "--net", "--mount")
    return words if os.geteuid() == 0 else (*words, "--user", "--preserve-credentials")


class _Name(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint32), ("value", ctypes.c_char * _NAME_BYTES))


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("length", ctypes.c_size_t))


_Deliver = ctypes.CFUNCTYPE(
    None, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t
)
_Change = ctypes.CFUNCTYPE(
    None,
    ctypes.c_uint64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
)


class _Callbacks(ctypes.Structure):
    _fields_ = (("deliver", _Deliver), ("change", _Change))


@cache
def _library() -> Any:
    library = ctypes.CDLL(_LIBRARY)
    library.cpg_mcast_joined.argtypes = (ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint)
    library.cpg_dispatch.argtypes = (ctypes.c_uint64, ctypes.c_int)
    return library


class _Member:
    """A member of the group; without `take`, what is delivered to it is left in C."""

    def __init__(self, take: Callable[[bytes], None] | None) -> None:
        self._library = _library()
        self._handle = ctypes.c_uint64()
        self._vector = _Vector()
        self._vector_at = ctypes.byref(self._vector)
        self._has_joined = False
        self._callbacks = _Callbacks(_Deliver(), _Change(self._changed))
        if take is not None:
            copy = ctypes.string_at
            self._callbacks.deliver = _Deliver(
                lambda _handle, _group, _node, _process, data, size: take(copy(data, size))
            )
        self._must("cpg_initialize", ctypes.byref(self._handle), ctypes.byref(self._callbacks))
        descriptor = ctypes.c_int()
        self._must("cpg_fd_get", self._handle, ctypes.byref(descriptor))
        self._poll = select.poll()
        self._poll.register(descriptor.value, select.POLLIN)
        name = CHANNEL.encode()
        self._must("cpg_join", self._handle, ctypes.byref(_Name(len(name), name)))
        while not self._has_joined:
            if not self.wait(_JOIN_TIMEOUT_S):
                raise AntiphonError("corosync did not let a member join")
            self.dispatch()

    def _changed(self, *_: object) -> None:
        self._has_joined = True

    def _must(self, call: str, *arguments: object) -> None:
        """Call the library until it has time, which it has not while the ring is formed."""
        for _ in range(int(_JOIN_TIMEOUT_S / LOOK_S)):
            code = getattr(self._library, call)(*arguments)
            if code == _OK:
                return
            if code != _TRY_AGAIN:
                break
            sleep(LOOK_S)
        raise AntiphonError(f"{call} of corosync failed with code {code}")

    def send(self, payload: bytes) -> None:
        """Send, and take what has come while there is no room for more."""
        self._vector.base = payload
        self._vector.length = len(payload)
        while True:
            code = self._library.cpg_mcast_joined(self._handle, _AGREED, self._vector_at, 1)
            if code == _OK:
                return
            if code != _TRY_AGAIN:
                raise AntiphonError(f"cpg_mcast_joined of corosync failed with code {code}")
            if self._poll.poll(_FULL_PAUSE_MS):
                self.dispatch()

    def wait(self, seconds: float) -> bool:
        """Whether something comes within this time."""
        return bool(self._poll.poll(seconds * 1_000))

    def dispatch(self) -> None:
        """Take all that has come."""
        code = self._library.cpg_dispatch(self._handle, _DISPATCH_ALL)
        if code not in (_OK, _TRY_AGAIN):
            raise AntiphonError(f"cpg_dispatch of corosync failed with code {code}")

    def close(self) -> None:
        """Leave the group and the server."""
        self._library.cpg_finalize(self._handle)
