"""The daemon: a protocol node between its UDP socket, its clock and its clients.

One thread does everything. Each turn of the loop handles the events that are there, then carries out what the
node left behind: datagrams to the socket (or to the shaper, on emulated paths), frames to the clients, each
client's with one system call; in a turn with little to do, clients come first. Nothing here looks at a
message.
"""

import logging
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec import structs

from antiphon import config as configuration
from antiphon.config import Config
from antiphon.core.effects import Datagram
from antiphon.core.membership.credence import DOUBTS
from antiphon.core.membership.engine import earliest_us
from antiphon.core.node import Node
from antiphon.core.observer import Observer
from antiphon.core.reconfiguration import reconfigure
from antiphon.core.sealing.keys import Keys
from antiphon.core.sealing.seal import UNINTRODUCED
from antiphon.core.status import overview
from antiphon.core.streams.exchange import Exchange
from antiphon.errors import ConfigError, ConnectError
from antiphon.runtime import key_files, process, status
from antiphon.runtime.addresses import STRANGER, is_loopback
from antiphon.runtime.clients import Clients
from antiphon.runtime.discovery import Discovering
from antiphon.runtime.life import Life
from antiphon.runtime.loop import READABLE, Loop, now_us, wall_us
from antiphon.runtime.multicast import Multicast
from antiphon.runtime.notices import Notices
from antiphon.runtime.shaper import Shaper, emulated_paths
from antiphon.runtime.streams import StreamSockets
from antiphon.runtime.udp import Offload, UdpSocket
from antiphon.runtime.view_log import ViewLog
from antiphon.trace.live import LiveWatcher
from antiphon.wire.frames import AskStatus

ROUNDS_PER_TURN = 4
"""Carrying out effects may cause new ones (a queue fills, a client is cut off); what is left after these
rounds waits for the next turn, which then comes at once."""
LIGHT_EFFECTS = 4
LIGHT_BYTES = 8 * 1024
"""A turn that leaves at most so many frames and datagrams, and so many bytes for clients, is light: its
clients are written to before its datagrams go out, which are updates and acknowledgements most of the time.
Under load it is the other way round, so that other daemons have work while this one writes to its clients."""
DROPS_INTERVAL_US = 5_000_000
LOOK_INTERVAL_US = 1_000_000
"""The time between two samples of buffers and links for the trace."""
USUAL_DROPS = ("packet: of another view", UNINTRODUCED)
"""What every change of the view, and every start of a daemon, brings with it: counted, but no news for a
log."""
EXPOSED = (
    "packets between daemons are not sealed (insecure = true): whoever can send packets to this daemon can "
    "do everything"
)
TOLD_AFTER = 10
"""What was refused only until it is proven is told from so many on: the return of a daemon brings a few."""

_logger = logging.getLogger("antiphon.daemon")


class Daemon(Life):
    """One daemon of `config`, on real sockets.

    Run it in this thread until it is stopped:

        Daemon(config, "east1").run()

    or in the background, for as long as a block lasts:

        with Daemon(config, "east1") as daemon:
            print(daemon.places)

    `offload` overrules the probe for the kernel's train services; `seed` is for emulated paths; `observer` is
    told what the node does, in the daemon's thread. `trace` is a folder for a file that tells what happens to
    the daemon, see docs/reference/trace.md; it has no other observer then.
    """

    def __init__(
        self,
        config: Config,
        name: str,
        *,
        offload: Offload | None = None,
        seed: int = 0,
        observer: Observer | None = None,
        trace: Path | None = None,
        discovering: Discovering | None = None,
    ) -> None:
        """`discovering` has found number, name and company, in a cluster without a file."""
        super().__init__(name)
        self._discovering = discovering
        self._roster_version = -1
        self._config = config
        self._number = config.daemon_number(name)
        self._offload = offload
        self._seed = seed
        self._observer = observer
        self._trace = trace
        self._watcher: LiveWatcher | None = None
        """Writes the trace, if there is one."""
        self._look_at_us = 0
        self._receive_us = 0  # when the descriptor was ready that is read now
        self._told_drops: Counter[str] = Counter()
        self._tell_drops_at_us = 0
        self._security = config.security
        self._keys: Keys | None = None
        self._is_exposed = False
        """Whether it has no key, and other machines reach it."""
        self.unreachable: frozenset[int] = frozenset()
        """For demonstrations and tests: the numbers of the daemons to which every packet is lost."""

    def open(self) -> None:
        """Take every address before anything is served; on an error give back those already taken."""
        config = self._config
        daemons = [daemon for _, daemon in config.daemons()]
        addresses = {number: configuration.address(daemon.address) for number, daemon in enumerate(daemons)}
        own = addresses.pop(self._number)
        self._keys = key_files.keys_of(self._security)
        with ExitStack() as opened:
            if self._discovering is not None:
                self._udp = self._discovering.take_udp()
            else:
                self._udp = UdpSocket(own, addresses, self._offload)
            self._udp.addresses.is_checked = config.settings.check_addresses
            opened.callback(self._udp.close)
            self._streams = self._open_streams()
            if self._streams is not None:
                opened.callback(self._streams.close)
            if self._keys is None:
                self._check_safety()
            self._listen(opened, daemons[self._number].clients, config.security)
            self._listen(opened, daemons[self._number].spread_places, config.security, "spread")
            self._listen_near(opened, daemons[self._number].spread_near)
            self._make_node()
            opened.pop_all()
        self._begins()
        _logger.info("daemon %s listens on %s:%d and %s", self.name, *own, ", ".join(self.places))
        if self._keys is not None:
            _logger.info("daemon %s seals packets to other daemons with %s", self.name, self._keys)
        elif self._is_exposed:
            _logger.warning("daemon %s: %s", self.name, EXPOSED)
        if self.spread_places:
            _logger.info("daemon %s speaks Spread on %s", self.name, ", ".join(self.spread_places))

    def _listen_near(self, opened: ExitStack, place: str | None) -> None:
        """Serve Spread's clients at localhost, too, unless another daemon of this machine does."""
        if place is None or place in self.spread_places:
            return
        try:
            self._listen(opened, (place,), self._config.security, "spread")
        except ConnectError as error:
            _logger.warning("daemon %s does not speak Spread at localhost: %s", self.name, error)

    def _check_safety(self) -> None:
        """Without a key, whoever can send packets to a daemon can do everything: ConfigError unless only this
        machine can, or the configuration wants it so."""
        own = self._config.daemons()[self._number][1]
        places = [own.address]
        if self._config.stream_peers_of(self._number):
            places.append(own.stream_address)
        hosts = [str(self._udp.address[0]), *(configuration.address(place)[0] for place in places[1:])]
        exposed = [place for place, host in zip(places, hosts, strict=True) if not is_loopback(host)]
        key_files.check_exposed(self.name, exposed, self._security)
        self._is_exposed = bool(exposed)

    def _open_streams(self) -> StreamSockets | None:
        """The sockets for daemons that are reached over TCP, if there are any."""
        config = self._config
        peers = config.stream_peers_of(self._number)
        if not peers:
            return None
        daemons = [daemon for _, daemon in config.daemons()]
        places = {peer: configuration.address(daemons[peer].stream_address) for peer in peers}
        own = configuration.address(daemons[self._number].stream_address)
        return StreamSockets(own, places, config.settings.timing().suspect_us)

    def _make_node(self) -> None:
        config = self._config
        paths = emulated_paths(config, self.name)
        self._shaper = Shaper(paths, f"{self._seed}/{self._number}") if paths else None
        incarnation = process.new_incarnation()
        if self._discovering is not None:  # two that got one number in one moment must differ, too
            incarnation = (incarnation ^ self._discovering.machine.process) & 0xFFFFFFFF or 1
            self._udp.discard()
        if self._trace is not None:
            self._watcher = self._observer = LiveWatcher(config, self.name, incarnation, self._trace)
        self._node = Node(
            config,
            self.name,
            incarnation=incarnation,
            now_us=now_us(),
            wall_us=wall_us(),
            observer=self._observer,
            sealing=key_files.sealing_of(self._keys),
        )
        self._multicast: Multicast | None = None
        if len(config.daemons_of(config.site_of(self._number))) > 1:
            self._multicast = Multicast(
                config, self._number, incarnation, self._udp, self._node.datagrams.counter, now_us(),
                self._node.seal,
            )  # fmt: skip
        self._loop = loop = Loop()
        notices = Notices(_logger)
        self._views = ViewLog(_logger, notices)
        self._clients = Clients(
            loop, self._node, config.settings, notices, self._status, config.daemon_names, config.security
        )
        self._clients.doors.open(self._listeners)
        loop.register(self._udp.fileno(), self._on_datagrams, READABLE, urgent=True)
        if self._multicast is not None and self._multicast.is_open:
            loop.register(self._multicast.fileno(), self._on_multicasts, READABLE, urgent=True)
        if self._discovering is not None:
            self._discovering.places = self.places
            for descriptor in self._discovering.filenos():
                loop.register(descriptor, self._discovering.drain, READABLE)
            self._follow_roster(now_us())
        if self._streams is not None:
            peers = config.stream_peers_of(self._number)
            talker = self._node.streams
            proofs = None if self._node.seal is None else self._node.seal.proofs
            exchange = Exchange(self._number, config.digest, incarnation, peers, talker, proofs)
            self._streams.serve(loop, exchange)

    # Work -------------------------------------------------------------------------------------------------

    def _serve(self, loop: Loop) -> None:
        is_settled = self._settle(now_us())
        while not self._is_stopping:
            node_deadline_us = self._node.next_deadline_us()
            clients_deadline_us = self._clients.next_deadline_us()
            deadline_us = self._earliest_us(node_deadline_us, clients_deadline_us)
            loop.turn(deadline_us if is_settled else 0)
            now = now_us()
            if self._node.time.system is not None:
                self._read_system()
            if node_deadline_us is not None and node_deadline_us <= now:
                self._node.timeout(now)
            if clients_deadline_us is not None and clients_deadline_us <= now:
                self._clients.timeout(now)
            self._timeouts(now)
            if self._is_leaving:
                self._take_leave(now)
            is_settled = self._settle(now)
            if self._node.departure.is_over and self._is_read(now):
                break

    def _give_back(self, closing: ExitStack) -> None:
        if self._watcher is not None:
            closing.callback(self._watcher.ended)
        closing.callback(self._udp.close)
        if self._multicast is not None:
            closing.callback(self._multicast.close)
        if self._streams is not None:
            closing.callback(self._streams.close)

    def _read_system(self) -> None:
        """Tell the node what the system clock of this reference shows."""
        before_us = now_us()
        wall = wall_us()
        self._node.time.read_system(wall, now_us() - before_us, before_us)

    def _take_leave(self, now: int) -> None:
        """Begin a planned stop."""
        self._is_leaving = False
        _logger.info("daemon %s is stopping: it tells its clients and the other daemons first", self.name)
        if self._watcher is not None:
            self._watcher.leaves()
        self._clients.doors.close()
        self._node.departure.begin(now)

    def _reload(self) -> None:
        super()._reload()
        seal = self._node.seal
        if seal is None:  # without a key it cannot get one while it runs
            return
        try:
            keys = key_files.keys_of(self._security)
        except ConfigError as error:
            _logger.error("daemon %s goes on with the keys that it has: %s", self.name, error)
            return
        assert keys is not None
        seal.change_keys(keys, now_us())
        if self._discovering is not None:
            self._discovering.seal_with(keys)
        self._node.is_settled = False
        _logger.info("daemon %s has %s", self.name, keys)

    def _forget(self) -> None:
        self._udp.close()
        if self._multicast is not None:
            self._multicast.close()
        if self._streams is not None:
            self._streams.close()
        if self._discovering is not None:
            self._discovering.close()
        if self._watcher is not None:
            self._watcher.scroll.forget()

    def _earliest_us(self, node_deadline_us: int | None, clients_deadline_us: int | None) -> int | None:
        """When there is something to do, if nothing happens before."""
        due_us = earliest_us(node_deadline_us, clients_deadline_us)
        if self._shaper is not None:
            due_us = earliest_us(due_us, self._shaper.next_due_us())
        if self._multicast is not None:
            due_us = earliest_us(due_us, self._multicast.next_due_us())
        if self._streams is not None:
            due_us = earliest_us(due_us, self._streams.next_deadline_us())
        if self._discovering is not None:
            due_us = earliest_us(due_us, self._discovering.next_due_us())
        if self._watcher is not None:
            due_us = earliest_us(due_us, self._look_at_us)
        if self._gone_us is not None:
            due_us = earliest_us(due_us, self._closed_us)
        return due_us

    def _timeouts(self, now: int) -> None:
        """What is due besides what the node and the clients wait for."""
        if self._shaper is not None:
            for datagram in self._shaper.due(now):
                self._udp.send(datagram)
        if self._multicast is not None:
            self._multicast.timeout(now)
        if self._streams is not None:
            deadline_us = self._streams.next_deadline_us()
            if deadline_us is not None and deadline_us <= now:
                self._streams.timeout(now)
        if self._discovering is not None:
            self._discover(self._discovering, now)
        if now >= self._tell_drops_at_us:
            self._tell_drops_at_us = now + DROPS_INTERVAL_US
            self._tell_drops()
        if self._watcher is not None and now >= self._look_at_us:
            self._look_at_us = now + LOOK_INTERVAL_US
            self._watcher.look(self._node, now_us)

    def _discover(self, discovering: Discovering, now: int) -> None:
        """Follow what is found out about other daemons, and about our own number."""
        due_us = discovering.next_due_us()
        if due_us is not None and due_us <= now:
            if self._node.membership.is_active:
                discovering.machine.in_view(self._node.view.members, now)
            discovering.timeout(now)
            for line in discovering.news(now):
                _logger.warning("daemon %s: %s", self.name, line)
        for reason in discovering.machine.losses:
            _logger.warning("daemon %s starts anew under another number or name: %s", self.name, reason)
            self._is_stopping = True
        if not self._is_stopping:
            self._follow_roster(now)

    def _follow_roster(self, now: int) -> None:
        """Let the node know which daemons bear which numbers, if that has changed."""
        discovering = self._discovering
        assert discovering is not None
        if self._roster_version == discovering.machine.roster.version:
            return
        self._roster_version = discovering.machine.roster.version
        self._config = discovering.config()
        self._udp.addresses.assign(discovering.peers())
        reconfigure(self._node, self._config, discovering.vacant(), now)

    def _tell_drops(self) -> None:
        """Log what the node has refused since the last time: one line, however much it was."""
        refused = self._node.counters.copy()
        if self._streams is not None:
            refused += self._streams.exchange.counters
        news = refused - self._told_drops
        for reason in USUAL_DROPS:
            self._told_drops[reason] += news.pop(reason, 0)
        for reason in DOUBTS:
            if news[reason] < TOLD_AFTER:
                del news[reason]  # until there are more
        if news:
            self._told_drops += news
            dropped = ", ".join(f"{reason} ({count} times)" for reason, count in sorted(news.items()))
            _logger.warning("daemon %s dropped input: %s", self.name, dropped)

    def _on_datagrams(self, _events: int) -> None:
        self._receive_us = now_us()
        self._udp.drain(self._receive)

    def _on_multicasts(self, _events: int) -> None:
        assert self._multicast is not None
        self._receive_us = now_us()
        self._multicast.drain(self._receive)

    def _receive(self, data: memoryview, stride_bytes: int, origin: int | None) -> None:
        """A datagram or a train was read."""
        now, multicast = self._receive_us, self._multicast
        if self._node.time.is_active(now):
            now = now_us()  # what it says of the time was true before this; and may not have been before that
        if origin == STRANGER:
            self._find_out(now)
        if multicast is None or not multicast.is_probe(data) or not multicast.take(data, now, origin):
            self._node.receive(data, stride_bytes, now, origin)

    def _find_out(self, now: int) -> None:
        """Something came from an unknown address: a daemon may have moved."""
        assert self._loop is not None
        self._udp.addresses.find_out(self._loop.call_soon_threadsafe, now)

    def _settle(self, now: int) -> bool:
        """Carry out what the node left behind; False if more is left to do."""
        node = self._node
        clients = self._clients
        watcher = self._watcher
        for _ in range(ROUNDS_PER_TURN):
            if not node.is_settled:
                node.settle(now)
            if watcher is not None and watcher.scroll.has_news:
                watcher.scroll.flush()  # before others can have seen what it tells of
            clients_first = self._is_light
            if clients_first:
                self._write(now)
            if node.datagrams:
                self._send(now)
            if self._streams is not None:
                self._streams.carry_out(now)
            if not clients_first:
                self._write(now)
            clients.resume()
            self._views.follow(node, now)
            if node.is_settled and not (node.datagrams or node.frames or node.endings):
                return True
        return False

    @property
    def _is_light(self) -> bool:
        """Whether the node has left little to do, and some of it for clients."""
        frames = self._node.frames
        return (
            0 < len(frames) <= LIGHT_EFFECTS
            and len(self._node.datagrams) <= LIGHT_EFFECTS
            and sum(len(frame) for _, frame, _ in frames) <= LIGHT_BYTES
        )

    def _write(self, now: int) -> None:
        """Write to the clients."""
        if self._node.frames or self._node.endings:
            self._clients.deliver(now)
        self._clients.flush(now)

    def _send(self, now: int) -> None:
        streams = self._streams
        for datagram in self._node.datagrams:
            if datagram.receivers:
                self._send_to_several(datagram, now)
            elif streams is not None and streams.exchange.serves(datagram.receiver):
                if datagram.receiver in self.unreachable:
                    streams.exchange.hang_up(datagram.receiver, "made unreachable", now)
                else:
                    streams.exchange.send(datagram, now)
            elif datagram.receiver in self.unreachable:
                continue
            # An emulated path begins when the packet leaves, not when its turn began: that of a busy daemon
            # would be shorter than any other, and its round trips quicker than possible.
            elif self._shaper is None or not self._shaper.take(datagram, now_us()):
                self._udp.send(datagram)
        self._node.datagrams.clear()

    def _send_to_several(self, datagram: Datagram, now: int) -> None:
        """What is for other daemons of this site."""
        if self.unreachable:
            reachable = tuple(number for number in datagram.receivers if number not in self.unreachable)
            if reachable:
                self._udp.send(structs.replace(datagram, receivers=reachable))
        elif self._multicast is None or not self._multicast.send(datagram, now):
            self._udp.send(datagram)

    def _status(self, request: AskStatus, now: int) -> status.Steps:
        """A page of the daemon's status."""
        node = self._node
        return status.page(
            node.delivery.membership.groups, node.sessions, request, lambda: self._overview(now),
            self._clients.output_bytes,
        )  # fmt: skip

    def _overview(self, now: int) -> dict[str, Any]:
        """The node's status, without groups and sessions, and what only the runtime knows."""
        udp = self._udp
        runtime: dict[str, object] = {
            **self._told_of_clients(),
            "gso": udp.offload.gso,
            "gro": udp.offload.gro,
            "udp": udp.counters,
            "udp_kernel_drops": udp.kernel_drops(),
            "exposed": EXPOSED if self._is_exposed else "",
            "multicast": None
            if self._multicast is None
            else self._multicast.status(
                self._config.daemon_names, now, self._node.membership.presence.vacant
            ),
        }
        if self._streams is not None:
            exchange = self._streams.exchange
            names = self._config.daemon_names
            runtime["streams"] = {names[peer]: line for peer, line in exchange.describe().items()}
            runtime["stream_counters"] = dict(sorted((exchange.facts + exchange.counters).items()))
        if self._watcher is not None:
            runtime["trace"] = self._watcher.scroll.state
        if self._discovering is not None:
            runtime["discovery"] = self._discovering.status(now)
        if self._shaper is not None:
            runtime["emulated_losses"] = self._shaper.lost + self._shaper.overflowed
        found = self._node.time.describe(now)
        # By how much the system clock of this machine is behind what the daemon says.
        said_us = found["time_us"]
        offset_us = said_us + now_us() - now - wall_us() if isinstance(said_us, int) else None
        shown = overview(self._node, now)
        if self._discovering is not None:  # who is gone is not missed
            shown["daemons"] = self._discovering.living(now)
        return {**shown, "time": found | {"offset_us": offset_us}, "runtime": runtime}
