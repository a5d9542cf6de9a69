"""The edge: a daemon in no view, between its attachments, its clock and its clients.

It has no socket towards other daemons but connections like those of clients, to one attachment that feeds it
and to one that stands by (`core.edge`). One thread does everything, as in the daemons of the core.
"""

import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from antiphon import limits
from antiphon.config import Config, EdgeMulticast, Security, Settings, address, check_listener
from antiphon.core.edge.node import EdgeNode
from antiphon.core.edge.status import overview
from antiphon.core.membership.engine import earliest_us
from antiphon.core.observer import Observer
from antiphon.errors import ConfigError, UsageError
from antiphon.runtime import process, status
from antiphon.runtime.casting import CastSockets, new_place, own_interface
from antiphon.runtime.clients import Clients
from antiphon.runtime.credentials import Credentials
from antiphon.runtime.edge_log import EdgeLog
from antiphon.runtime.life import Life
from antiphon.runtime.loop import Loop, now_us
from antiphon.runtime.notices import Notices
from antiphon.runtime.tls import Tls
from antiphon.runtime.upstream import UpstreamSockets
from antiphon.trace.edges import WatchedEdge
from antiphon.types import check_name
from antiphon.wire.frames import AskStatus

ROUNDS_PER_TURN = 4
"""Carrying out effects may cause new ones; what is left after these rounds waits for the next turn."""
ANY_ADDRESS = ("0.0.0.0", "::", "")
"""Hosts of a place that are no address of the machine."""
DRAIN_US = 2_000_000
"""How long an edge that is told to stop waits until its attachment has accepted what its clients have
sent."""
DEFAULT_PLACE = "unix:/tmp/antiphon.sock"
"""Where clients look for a daemon if they are not told."""

_logger = logging.getLogger("antiphon.daemon")


class EdgeDaemon(Life):
    """An edge on real sockets.

    Run it in this thread until it is stopped, or in the background for as long as a block lasts:

        with EdgeDaemon("hall", attach=["tcp:10.0.0.7:4811", "tcp:10.0.0.8:4811"]) as edge:
            print(edge.places)

    `attach` are addresses of daemons or of other edges, as clients write them, in the order of preference;
    `places` are where its own clients connect.
    """

    kind = "edge"

    def __init__(
        self,
        name: str,
        attach: Sequence[str],
        places: Sequence[str] = (DEFAULT_PLACE,),
        *,
        organises: bool = True,
        reach: Sequence[str] = (),
        multicast: EdgeMulticast = "auto",
        settings: Settings | None = None,
        security: Security | None = None,
        shown: Credentials | None = None,
        observer: Observer | None = None,
        trace: Path | None = None,
        daemons: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
    ) -> None:
        """Whether it `organises` itself matters if it is to attach to daemons of the core; other edges reach
        it at `reach`, or else at those of its places that others can reach. `multicast` is whether it feeds
        edges behind it together, and hears the one to which it is attached, wherever that works: "auto" only
        those on other machines, and only if it speaks no TLS. Its attachments are `shown` who it is, or else
        the certificate of `security`. `trace` is a folder for a file that tells what happens to the edge and
        to the sessions there; it names the `daemons` of the cluster, and the site of each, as far as they are
        known.

        ConfigError or UsageError for what can be no name or address."""
        super().__init__(check_name(name, "edge", limits.DAEMON_NAME_MAX_BYTES))
        self.attach = tuple(map(check_listener, attach))
        if not 0 < len(self.attach) <= limits.EDGE_ATTACHMENTS_MAX:
            most = limits.EDGE_ATTACHMENTS_MAX
            raise UsageError(f"an edge has 1 to {most} addresses to attach to, not {len(self.attach)}")
        self._wanted_places = tuple(map(check_listener, places))
        if not self._wanted_places:
            raise UsageError("an edge needs a place where its clients connect")
        for place in self.attach:
            if self.attach.count(place) > 1:
                raise UsageError(f"the address {place} appears more than once")
            if place in self._wanted_places:
                raise UsageError(
                    f"{place} is where this edge's own clients connect: it cannot attach to itself"
                )
        self._organises = organises
        speaks_tls = any(place.startswith("tls:") for place in (*self.attach, *self._wanted_places))
        self._multicast: EdgeMulticast = "off" if speaks_tls and multicast == "auto" else multicast
        self._reach = tuple(map(check_listener, reach)) or reachable(self._wanted_places, self.attach)
        self._settings = settings or Settings()
        self._security = security or Security()
        self._shown = shown or Credentials(_tls_of(self._security))
        self._observer = observer
        self._trace = trace
        self._daemons = daemons
        self._drained_us: int | None = None
        """Until when what clients have sent may take to be accepted, once it is told to stop."""

    # Life -------------------------------------------------------------------------------------------------

    def open(self) -> None:
        with ExitStack() as opened:
            self._listen(opened, self._wanted_places, self._security)
            self._make_node()
            opened.pop_all()
        self._begins()
        places, attachments = ", ".join(self.places), ", ".join(self.attach)
        _logger.info("edge %s listens on %s and attaches to %s", self.name, places, attachments)

    def _make_node(self) -> None:
        incarnation = process.new_incarnation()
        casts_at = new_place() if self._multicast != "off" else ""
        usual: dict[str, Any] = {
            "incarnation": incarnation, "now_us": now_us(), "settings": self._settings,
            "places": self._reach, "organises": self._organises, "observer": self._observer,
            "casts_at": casts_at, "chance": os.urandom,
        }  # fmt: skip
        self._watched: WatchedEdge | None = None
        if self._trace is None:
            self._node = EdgeNode(self.name, self.attach, **usual)
        else:
            cluster = (self._settings.name, *self._daemons)
            self._node = self._watched = WatchedEdge(
                self.name, self.attach, folder=self._trace, cluster=cluster, **usual
            )
        self._loop = loop = Loop()
        notices = Notices(_logger)
        self._log = EdgeLog(_logger, notices)
        self._upstream = UpstreamSockets(loop, self._node, self._shown)
        self._casting = CastSockets(
            loop, self._node, self._upstream, own_interface(self._reach), is_local=self._multicast == "on"
        )
        self._clients = Clients(
            loop, self._node, self._settings, notices, self._status, security=self._security
        )
        self._clients.doors.open(self._listeners)

    def _serve(self, loop: Loop) -> None:
        node, clients = self._node, self._clients
        is_settled = self._settle(now_us())
        while not self._is_stopping:
            node_deadline_us = node.next_deadline_us()
            clients_deadline_us = clients.next_deadline_us()
            deadline_us = earliest_us(node_deadline_us, clients_deadline_us)
            if self._gone_us is not None:
                deadline_us = earliest_us(deadline_us, self._closed_us)
            loop.turn(earliest_us(deadline_us, self._drained_us) if is_settled else 0)
            now = now_us()
            if node_deadline_us is not None and node_deadline_us <= now:
                node.timeout(now)
            if clients_deadline_us is not None and clients_deadline_us <= now:
                clients.timeout(now)
            if self._is_leaving:
                self._take_leave(now)
            is_settled = self._settle(now)
            if self._has_left(now) and self._is_read(now):
                break

    def _take_leave(self, now: int) -> None:
        """Begin a planned stop."""
        self._is_leaving = False
        _logger.info("edge %s is stopping: it tells its clients first", self.name)
        self._clients.doors.close()
        self._node.sessions.is_closed = True
        self._drained_us = now + DRAIN_US

    def _has_left(self, now: int) -> bool:
        """Whether clients and edges behind have been told of a planned stop, and nothing of theirs waits
        here."""
        if self._gone_us is not None:
            return True
        if self._drained_us is None or (now < self._drained_us and not self._node.sending.is_idle):
            return False
        self._drained_us = None
        self._clients.dismiss(now)
        self._settle(now)
        return True

    def _give_back(self, closing: ExitStack) -> None:
        if self._watched is not None:
            closing.callback(self._watched.ended)
        closing.callback(self._upstream.close)
        closing.callback(self._casting.close)

    def _forget(self) -> None:
        self._casting.close()
        self._upstream.close()
        if self._watched is not None:
            self._watched.scroll.forget()

    # Work -------------------------------------------------------------------------------------------------

    def _settle(self, now: int) -> bool:
        """Carry out what the node left behind; False if more is left to do."""
        node, clients = self._node, self._clients
        for _ in range(ROUNDS_PER_TURN):
            if not node.is_settled:
                node.settle(now)
            self._write_down()  # before others can have seen what it tells of
            if node.dials or node.upstream or node.hang_ups:
                self._upstream.carry_out(now)
            self._casting.carry_out()
            if node.frames or node.endings:
                self._write_down()
                clients.deliver(now)
            clients.flush(now)
            clients.resume()
            self._log.follow(node, now)
            if node.is_settled and not (
                node.dials or node.upstream or node.hang_ups or node.frames or node.endings
            ):
                return True
        return False

    def _write_down(self) -> None:
        """Put what has happened into the trace, if there is one."""
        if self._watched is not None:
            self._watched.follow()
            if self._watched.scroll.has_news:
                self._watched.scroll.flush()

    def _status(self, request: AskStatus, now: int) -> status.Steps:
        """A page of the edge's status."""
        members = self._node.members
        return status.page(
            members.groups, self._node.sessions, request, lambda: self._overview(now),
            self._clients.output_bytes,
        )  # fmt: skip

    def _overview(self, now: int) -> dict[str, Any]:
        told: dict[str, Any] = overview(self._node, now)
        if self._multicast != "off":
            told["multicast"] |= self._casting.status()
        told["history"] = [
            {"ago_us": now - one.at_us, "event": one.event, "name": one.name, "detail": one.detail}
            for one in self._log.records
        ]
        runtime = self._told_of_clients()
        if self._watched is not None:
            runtime["trace"] = self._watched.scroll.state
        return {**told, "cluster": self._settings.name, "runtime": runtime}


def edge_of(config: Config, name: str, trace: Path | None = None, token: str = "") -> EdgeDaemon:
    """The edge of a configuration with this name, which shows its attachments this token; a ConfigError that
    lists the known ones otherwise."""
    edge = config.edge(name)
    if edge is None:
        known = ", ".join(one.name for one in config.edges) or "none"
        raise ConfigError(f"no edge is called {name!r}; known: {known}")
    shown = Credentials(_tls_of(config.security), token)
    sites = tuple(config.sites[number].name for number, _ in config.daemons())
    return EdgeDaemon(
        edge.name, config.attachments_of(edge), edge.clients,
        organises=edge.organise, reach=edge.reach, multicast=edge.multicast, settings=config.settings,
        security=config.security, shown=shown, trace=trace, daemons=(config.daemon_names, sites),
    )  # fmt: skip


def _tls_of(security: Security) -> Tls:
    """How an edge speaks TLS with its attachments: it shows what it shows to its clients."""
    tls = security.tls
    return Tls() if tls is None else Tls(tls.ca, tls.certificate, tls.key)


def reachable(places: Sequence[str], attach: Sequence[str]) -> tuple[str, ...]:
    """The places among these at which other edges reach one that attaches there: over the network at an
    address of its own; unix sockets if its attachments are at such, too, and so on its machine.

    >>> reachable(["unix:/tmp/hall.sock", "tcp:10.0.0.9:4811", "tcp:0.0.0.0:4812"], ["tcp:10.0.0.7:4811"])
    ('tcp:10.0.0.9:4811',)
    """
    found = [
        place
        for place in places
        if place.startswith(("tcp:", "tls:")) and address(place[4:])[0] not in ANY_ADDRESS
    ]
    if not found and all(place.startswith("unix:") for place in attach):
        found = [place for place in places if place.startswith("unix:")]
    return tuple(found)
