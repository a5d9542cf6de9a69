"""What an edge on real sockets writes down: what happens to the sessions there, and what its feed tells.

All of it stands in one file, from the start of the edge to its end, so it has one order. A session's messages
count as delivered when the edge gives them to its connection.

The sessions of attachments in whose names clients of edges send are in the files of the daemons (see
`live.LiveWatcher`).
"""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from antiphon.core.access.rights import Rights
from antiphon.core.edge.node import EdgeNode
from antiphon.trace.feeds import FeedNotes, number_of
from antiphon.trace.records import Event, Record, ViewNumber
from antiphon.trace.scrolls import LiveNames, Scroll, edge_scroll, wall_us
from antiphon.trace.watcher import SERVICE_WORDS
from antiphon.wire import bundle as bundles
from antiphon.wire import edges, frames
from antiphon.wire.bundle import Flag, Header

Buffer = bytes | bytearray | memoryview

_encode = msgspec.json.encode


class Client:
    """One session at the edge."""

    def __init__(self, process: str, session: int) -> None:
        self.process = process
        self.session = session
        self.views: dict[str, ViewNumber] = {}
        self.sequence = 0
        """The number of the last message, join, leave or refused request that it has made."""


class WatchedEdge(EdgeNode):
    """An edge that writes down what happens at it."""

    def __init__(
        self, name: str, attachments: Sequence[str], *, incarnation: int, folder: Path,
        cluster: tuple[str, tuple[str, ...], tuple[str, ...]], **others: Any,
    ) -> None:  # fmt: skip
        """`cluster` has its name, and the names and sites of its daemons; `others` as for `EdgeNode`."""
        names = LiveNames(folder, name)
        self.scroll: Scroll = edge_scroll(folder, name, incarnation, *cluster)
        self._names = names
        self._told: dict[int, Client] = {}
        self._first: object = None
        """The frame with which the output began when it was looked at last; another one means that the driver
        has taken that output."""
        self._seen = 0
        """How many of its frames are written down."""
        self._fed_by = ""
        self._fed_over = 0
        """The connection over which it is fed."""
        self._feed = FeedNotes(self._note)
        super().__init__(name, attachments, incarnation=incarnation, **others)
        self.witness = self._saw_feed
        self._note(Event.RECOVER, incarnation=incarnation)

    def ended(self) -> None:
        """The edge has stopped: nothing happens at it any more."""
        self.follow()
        for number in list(self._told):
            self._end_of(number, frames.STOPPING)
        self._note(Event.CRASH, incarnation=self.incarnation)
        self.scroll.close()

    # Clients ----------------------------------------------------------------------------------------------

    def connect(
        self, request: frames.Connect, now_us: int, rights: Rights | None = None
    ) -> frames.Welcome | frames.Refuse:
        answer = super().connect(request, now_us, rights)
        if isinstance(answer, frames.Welcome):
            client = self._told[answer.session] = Client(self._names.born(answer.name), answer.session)
            self._note(
                Event.CONNECT, client.process, views_wanted=request.views, incarnation=self.incarnation
            )
        return answer

    def control(self, session: int, request: frames.FromClient | edges.FromEdge, now_us: int) -> None:
        client = self._told.get(session)
        if client is None:
            super().control(session, request, now_us)
            return
        self.follow()
        if isinstance(request, frames.Disconnect):
            self._end_of(session, "disconnect")
            super().control(session, request, now_us)
            return
        asking = self._session(session)
        waiting, groups = len(asking.input), set(asking.groups)
        super().control(session, request, now_us)
        client.sequence += len(asking.input) - waiting  # requests have their place among its messages
        for event, changed in (
            (Event.JOIN, asking.groups.keys() - groups), (Event.LEAVE, groups - asking.groups.keys()),
        ):  # fmt: skip
            for group in changed:
                self._note_of(client, event, (group,))

    def submit(self, session: int, bundles: Sequence[bytearray | memoryview], now_us: int) -> None:
        client = self._told.get(session)
        if client is None:
            super().submit(session, bundles, now_us)
            return
        self.follow()
        for one in bundles:
            frame = bytes(one)  # what is taken may change here
            super().submit(session, (one,), now_us)
            self._note_handed(client, frame)

    def lost(self, session: int, now_us: int) -> None:
        if session in self._told:
            self.follow()
            self._end_of(session, "broken")
        super().lost(session, now_us)

    def _end_of(self, number: int, cause: str) -> None:
        self._note(Event.DISCONNECT, self._told.pop(number).process, cause=cause)

    def _note_handed(self, client: Client, frame: bytes) -> None:
        header = bundles.parse(frame)
        messages = bundles.decode(frame)
        first = client.sequence + 1 + header.message_count - len(messages)  # a stamp is numbered, too
        client.sequence += header.message_count
        groups = bundles.parse_names(header.names)[1:]
        for place, message in enumerate(messages):
            self._note_of(
                client, Event.HANDED, groups,
                message=(frames.AT_AN_EDGE, self.incarnation, client.session, first + place),
                service=SERVICE_WORDS[header.service], checksum=zlib.crc32(message.payload),
                self_discard=bool(header.flags & Flag.SELF_DISCARD),
            )  # fmt: skip

    # The feed ---------------------------------------------------------------------------------------------

    def detached(self, reason: str) -> None:
        self.follow()
        self._note_loss(reason)
        super().detached(reason)

    def _note_loss(self, reason: str) -> None:
        if self._fed_by:
            self._note(Event.DETACH, peer=self._fed_by, reason=reason)
            self._fed_by = ""

    def _note_go(self, go: edges.Go) -> None:
        """The edge asks its attachment, the same as before or another one, for what follows a position."""
        main = self.links.main
        assert main is not None and main.attached is not None
        if self._fed_over != main.link:
            self._note_loss("given up")
        self._fed_by, self._fed_over = main.attached.name, main.link
        self._feed.asked(self._fed_by, go)

    def _saw_feed(self, value: object) -> None:
        """The edge reads a control frame of the feed, or asks for the feed."""
        self.follow()
        if isinstance(value, edges.Go):
            self._note_go(value)
        else:
            self._feed.read(value)

    # What sessions get ------------------------------------------------------------------------------------

    def settle(self, now_us: int) -> None:
        super().settle(now_us)
        self.follow()

    def follow(self) -> None:
        """Write down what sessions have got since the last time; also before the driver takes `frames`."""
        output = self.frames
        if not output or output[0] is not self._first:
            self._first, self._seen = output[0] if output else None, 0
        for numbers, frame, header in output[self._seen :]:
            clients = [client for number in numbers if (client := self._told.get(number)) is not None]
            if clients and header is not None:
                self._note_deliveries(clients, frame, header)
            elif clients:
                self._note_told(clients, frames.decode_from_daemon(memoryview(frame)))
        self._seen = len(output)

    def _note_deliveries(
        self, clients: list[Client], frame: bytes | bytearray | memoryview, header: Header
    ) -> None:
        """A record for each message and client. Few of their bytes differ, so the lines are put together here
        instead of encoded."""
        messages = bundles.decode(frame if isinstance(frame, bytes) else bytes(frame))
        if not messages:
            return
        envelope = messages[0].envelope
        groups = envelope.groups
        start = b',"time_us":%d,"event":"deliver","daemon":%b,"groups":%b,"process":' % (
            wall_us(), _encode(self.name), _encode(groups),
        )  # fmt: skip
        identity = b'"message":[%d,%d,%d,' % (envelope.daemon, envelope.incarnation, envelope.session)
        word = SERVICE_WORDS[header.service].encode()
        tails = [
            b'%b%d],"service":"%b","checksum":%d,"lts":%d}\n' % (
                identity, envelope.sequence + place, word, zlib.crc32(message.payload), envelope.lts
            )
            for place, message in enumerate(messages)
        ]  # fmt: skip
        middles = [
            b'%b%b,"views":%b,' % (
                start, _encode(client.process), _encode(tuple(map(client.views.get, groups)))
            )
            for client in clients
        ]  # fmt: skip
        head = self.scroll.start
        parts = [(middle, tail) for middle in middles for tail in tails]
        self.scroll.extend(
            lambda position: [
                b"%b%d%b%b" % (head, position + index, middle, tail)
                for index, (middle, tail) in enumerate(parts)
            ]
        )

    def _note_told(self, clients: list[Client], value: object) -> None:
        for client in clients:
            if isinstance(value, frames.ViewFrame):
                view = value.view
                client.views[view.group] = number_of(view.id)
                self._note_of(
                    client, Event.VIEW, (view.group,), members=view.members, transitional=view.transitional,
                    changed=view.changed, cause=view.cause.value, has_quorum=view.has_quorum,
                )  # fmt: skip
            elif isinstance(value, frames.SignalFrame):
                client.views[value.signal.group] = number_of(value.signal.id)
                self._note_of(client, Event.TRANSSIG, (value.signal.group,))
            elif isinstance(value, frames.LeftFrame):
                client.views[value.left.group] = number_of(value.left.id)
                self._note_of(client, Event.LEFT, (value.left.group,))
                del client.views[value.left.group]
            elif isinstance(value, frames.GapFrame):
                gap = value.gap
                self._note_of(
                    client, Event.GAP, (gap.group,), lts=gap.after_lts, place=gap.until_lts, reason=gap.reason
                )  # fmt: skip
            elif isinstance(value, frames.Unsure | frames.NotSent):
                event = Event.UNSURE if isinstance(value, frames.Unsure) else Event.UNSENT
                first = (frames.AT_AN_EDGE, self.incarnation, client.session, value.sequence)
                self._note_of(client, event, (), message=first, count=value.count)

    # Writing ----------------------------------------------------------------------------------------------

    def _note_of(self, client: Client, event: Event, groups: tuple[str, ...], **fields: Any) -> None:
        views = tuple(map(client.views.get, groups))
        self._note(event, client.process, groups=groups, views=views, **fields)

    def _note(self, event: Event, process: str = "", **fields: Any) -> None:
        self.scroll.append(Record(0, wall_us(), event, self.name, process, **fields))
