"""Who comes in at a daemon's doors: what clients show of themselves, what they may ask for, how fast they may
send.

Without an access list whoever can connect may do everything, and none of this costs anything. With one, each
connection belongs to a user of the list, or is refused. What a session may send where is decided in the core
(`core.access`), with the rights that it gets here.

At a limit of a rate nothing is refused: the daemon reads the sockets of that user's sessions more slowly, all
of them together, and their libraries wait.
"""

import ipaddress
import socket
import ssl
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from struct import Struct as Layout

import msgspec

from antiphon.config import Security
from antiphon.config.access import Verb
from antiphon.core.access.rights import NOT_ALLOWED, Rights, User
from antiphon.core.membership.engine import earliest_us
from antiphon.errors import BadFrame, ConfigError
from antiphon.runtime.access import AccessControl, digest_of
from antiphon.runtime.addresses import is_on_loopback
from antiphon.runtime.client_counters import ClientCounters
from antiphon.runtime.connection import Connection, Phase
from antiphon.runtime.evidence import Evidence
from antiphon.runtime.listener import Listener
from antiphon.runtime.notices import Notices
from antiphon.runtime.spread import SpreadConnection
from antiphon.runtime.status import Steps
from antiphon.runtime.tls import TlsSocket, daemon_context
from antiphon.spreadwire.to_spread import ToSpread
from antiphon.wire import edges, frames
from antiphon.wire.bundle import FRAME_KIND_BUNDLE, message_count

_PEER = Layout("iII")
"""The kernel's word on who is at the other end of a unix socket: process, user, group."""
READ_LEAST_BYTES = 4_096
"""Read at once from a session that may send something, however slow its user has to be."""
TRACED = ("cluster", "daemons", "incarnation", "groups", "sessions", "runtime", "next")
"""What the status shows to whoever may write traces and nothing more; the lists among them are empty."""

_NEEDED: dict[type, Verb] = {
    frames.AskStatus: "status",
    edges.Attach: "attach",
    edges.Probe: "attach",
    frames.ReloadAccess: "reload",
}


class Entrance:
    """The access list of a daemon, and its certificate."""

    def __init__(self, security: Security, counters: ClientCounters, notices: Notices, now_us: int) -> None:
        """ConfigError for files that cannot be used."""
        self._security = security
        self._counters = counters
        self._notices = notices
        self.access: AccessControl | None = None
        if security.access_file:
            self.access = AccessControl(Path(security.access_file), now_us)
        self._context: ssl.SSLContext | None = None
        if security.tls is not None:
            self._context = daemon_context(security.tls)
        self._networks = [ipaddress.ip_network(network) for network in security.spread_from]
        self._held_us: int | None = None
        """When the first of those may send again whose user has sent too fast."""

    # Coming in --------------------------------------------------------------------------------------------

    def connection(
        self,
        client: socket.socket,
        listener: Listener,
        to_spread: ToSpread,
        is_taken: Callable[[str], bool],
    ) -> Connection:
        """The connection of somebody who has come, with what the kernel says of who it is."""
        if listener.protocol == "spread":
            self._counters.spread += 1
            connection: Connection = SpreadConnection(client, to_spread, is_taken, self._admits(client))
        elif listener.is_tls:
            assert self._context is not None
            connection = Connection(TlsSocket(client, self._context))
        else:
            connection = Connection(client)
        if self.access is not None and client.family == socket.AF_UNIX:
            _, uid, _ = _PEER.unpack(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            connection.evidence = Evidence(uid=uid)
        return connection

    def _admits(self, client: socket.socket) -> bool | None:
        """Whether a client of Spread may connect from its address; None if any address will do."""
        if client.family == socket.AF_UNIX or not self._networks:
            return None
        if is_on_loopback(client):
            return True
        try:
            host = ipaddress.ip_address(str(client.getpeername()[0]).partition("%")[0])
        except OSError:  # it has gone again
            return False
        host = getattr(host, "ipv4_mapped", None) or host
        return any(host in network for network in self._networks)

    def refusal(
        self, connection: Connection, request: frames.FromClient | edges.FromEdge
    ) -> frames.Refuse | None:
        """Why a client may not ask for this, if it may not. A token that it shows is looked at here."""
        verb = _NEEDED.get(type(request))
        is_greeting = connection.phase is Phase.GREETING
        if isinstance(request, frames.Credential):
            if not is_greeting:
                raise BadFrame("control frame: a credential after the greeting")
            token = digest_of(request.token)
            connection.evidence = msgspec.structs.replace(connection.evidence, token=token)
            connection.user = None
        elif self.access is None or (verb is None and not is_greeting):
            return None
        if self.access is None:
            return None
        if is_greeting and (stranger := self._identify(connection)) is not None:
            return stranger
        user = connection.user
        assert user is not None
        if verb is None or user.may(verb):
            return None
        if isinstance(request, frames.AskStatus):
            if user.may("trace") and (request.groups, request.sessions) == (0, 0):
                return None
            return self._refused(f"user {user.name!r} may not see the status")
        return self._refused(f"user {user.name!r} may not {verb}")

    def _refused(self, reason: str) -> frames.Refuse:
        self._counters.not_allowed += 1
        self._notices.info("not-allowed", "a request is refused: %s", reason)
        return frames.Refuse(NOT_ALLOWED, reason)

    def rights(self, connection: Connection) -> Rights | None:
        """What a session on this connection may do, once its request was not refused."""
        if self.access is None:
            return None
        assert connection.user is not None
        return Rights(connection.user, self.access.usage(connection.user))

    def _identify(self, connection: Connection) -> frames.Refuse | None:
        """Find out whose connection it is, if that is not known; a refusal if it is nobody's."""
        assert self.access is not None
        if connection.user is not None:
            return None
        names = connection.certificate_names()
        if names:
            connection.evidence = msgspec.structs.replace(connection.evidence, names=names)
        found = self.access.identify(connection.evidence)
        if isinstance(found, str):
            self._counters.strangers += 1
            self._notices.warn("stranger", "a client is refused: %s", found)
            return frames.Refuse(NOT_ALLOWED, found)
        connection.user = found
        return None

    def limit(self, connection: Connection, steps: Steps) -> Steps:
        """The steps to the answer to a question about the daemon, as far as the client may see it."""
        user = connection.user
        return steps if user is None or user.may("status") else _only_for_traces(steps)

    # Reading ----------------------------------------------------------------------------------------------

    def room(self, connection: Connection, wanted_bytes: int, now: int) -> int:
        """How many of so many bytes may be read from a session now."""
        if connection.rights is None:
            return wanted_bytes
        if not self.is_free(connection, now):
            return 0
        usage = connection.rights.usage
        if usage.messages is not None:  # how many come with so many bytes, nobody knows before
            return min(wanted_bytes, READ_LEAST_BYTES)
        if usage.bytes is None:
            return wanted_bytes
        return min(wanted_bytes, max(usage.bytes.room(now), READ_LEAST_BYTES))

    def is_free(self, connection: Connection, now: int) -> bool:
        """Whether a session may send, or has to wait because its user has sent too fast."""
        if connection.rights is None:
            return True
        usage = connection.rights.usage
        free_us = max((one.free_us(now) for one in (usage.bytes, usage.messages) if one), default=now)
        if free_us <= now:
            return True
        self._held_us = earliest_us(self._held_us, free_us)
        return False

    def was_read(
        self, connection: Connection, received: Sequence[tuple[int, memoryview | bytearray]], now: int
    ) -> None:
        """A session has sent this."""
        if connection.rights is None:
            return
        usage = connection.rights.usage
        if usage.bytes is not None:
            usage.bytes.take(sum(len(frame) for _, frame in received), now)
        if usage.messages is not None:
            counts = [message_count(frame) for kind, frame in received if kind == FRAME_KIND_BUNDLE]
            usage.messages.take(sum(counts), now)

    def next_deadline_us(self) -> int | None:
        """When somebody may send again."""
        return self._held_us

    def timeout(self, now: int) -> None:
        """Look again at who may send."""
        if self._held_us is not None and self._held_us <= now:
            self._held_us = None

    # Reading the list again -------------------------------------------------------------------------------

    def reload(self, now: int) -> frames.Reloaded:
        """Read list and certificate again; if there is a fault, nothing changes."""
        tls = self._security.tls
        try:
            context = None if tls is None else daemon_context(tls)
            if self.access is not None:
                self.access.reload(now)
        except ConfigError as error:
            return frames.Reloaded(False, str(error))
        self._context = context
        told = f"the access list has {self.access}" if self.access is not None else "there is no access list"
        told += "; the certificate was read, too" if context is not None else ""
        return frames.Reloaded(True, told)

    def changed(
        self, connection: Connection, groups: Collection[str]
    ) -> frames.Goodbye | frames.RightsChanged | None:
        """The list was read again: what a session, a member of `groups`, has to be told. It has the rights
        that it has now, or is over."""
        if self.access is None or connection.rights is None or connection.phase is not Phase.OPEN:
            return None
        found = self.access.identify(connection.evidence)
        reason = found if isinstance(found, str) else _over(connection, connection.rights, found, groups)
        if reason:
            return frames.Goodbye(NOT_ALLOWED, f"the access list has changed: {reason}")
        assert not isinstance(found, str)
        had_refused = connection.rights.has_refused
        connection.user = found
        connection.rights.renew(found)
        return frames.RightsChanged() if had_refused else None

    # Status -----------------------------------------------------------------------------------------------

    def status(self) -> dict[str, object] | None:
        """Who takes how much, without anything that is secret; None without a list."""
        if self.access is None:
            return None
        users = {
            name: {
                "sessions": usage.sessions,
                "groups": usage.groups,
                "limits": {key: most for key, most in msgspec.structs.asdict(usage.limits).items() if most},
            }
            for name, usage in self.access.usages.items()
            if usage.sessions
        }
        return {"list": str(self.access), "users": users}


def _over(connection: Connection, rights: Rights, user: User, groups: Collection[str]) -> str:
    """Why a session that belongs to `user` now is over, or an empty text."""
    before = rights.user.name
    if user.name != before:
        return f"this is user {user.name!r} now, no longer {before!r}"
    if connection.is_edge and not user.may("attach"):
        return f"user {before!r} may not attach any more"
    group = next((group for group in sorted(groups) if not user.may("join", group)), None)
    return "" if group is None else f"user {before!r} may not join {group!r} any more"


def _only_for_traces(steps: Steps) -> Steps:
    """An answer without what only those may see who may see the status."""
    whole = msgspec.json.decode((yield from steps))
    told = {key: whole[key] for key in TRACED if key in whole}
    told["runtime"] = {"output_bytes": {}}
    return msgspec.json.encode(told)
