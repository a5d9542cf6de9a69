"""An edge with time, clients and attachments in hand, for tests that read as stories."""

from random import Random

from antiphon.config import Settings
from antiphon.core.edge.node import EdgeNode
from antiphon.service import Service
from antiphon.types import Cause, Message, View, ViewId
from antiphon.wire import bundle, edges, frames
from antiphon.wire.bundle import Header
from antiphon.wire.edges import Position

START_US = 1_000_000
Told = Message | frames.FromDaemon | edges.OnlyToEdge
Said = edges.FromEdge | Header


def view_of(group: str, lts: int, *members: str, epoch: int = 10, cause: Cause = Cause.JOIN) -> View:
    """A view of a group, made by the message with this lts."""
    return View(group, ViewId(epoch, 0, lts, 0), members, (), cause, members[-1:])


def messages(
    groups: tuple[str, ...],
    lts: int,
    *payloads: bytes,
    sender: str = "#core#d1",
    service: Service = Service.AGREED,
    flags: int = 0,
    origin: tuple[int, int, int, int] = (1, 7, 5, 1),
) -> bytes:
    """A bundle as an attachment feeds it; `origin` is daemon, incarnation, session and first sequence."""
    names = bundle.names_area(sender, groups)
    data = bytearray(b"".join(bundle.encode(names, len(groups), service, payloads, flags=flags)))
    daemon, incarnation, session, sequence = origin
    header = bundle.parse(data)
    stamped = Header(
        header.length, service, flags, names, len(payloads), 0, daemon, session, incarnation, sequence,
        1, 0, lts, 0, 0, 0,
    )  # fmt: skip
    bundle.stamp(data, stamped)
    return bytes(data)


class EdgeWorld:
    """One edge. What it says to attachments, and what its sessions are told, is decoded and kept."""

    def __init__(self, attachments: int = 2, name: str = "e1", casts_at: str = "", **settings: int) -> None:
        self.now_us = START_US
        self.node = EdgeNode(
            name,
            [f"a{place}" for place in range(attachments)],
            incarnation=77,
            now_us=START_US,
            settings=Settings(**settings),
            casts_at=casts_at,
            chance=Random(name).randbytes,
        )
        self.dialled: list[tuple[int, int]] = []
        """(link, place) of all dials so far."""
        self.said: dict[int, list[Said]] = {}
        """By link, what the edge said; bundles as their headers."""
        self.written: dict[int, list[bytes]] = {}
        """The same as frames."""
        self.hung_up: list[int] = []
        self.told: dict[int, list[Told]] = {}
        """By session, what it was told; bundles as messages."""
        self.raw: dict[int, list[bytes]] = {}
        """The same as frames."""
        self.ended: dict[int, frames.Goodbye] = {}
        self.settle()

    # Time -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        for _ in range(1_000):
            self.node.settle(self.now_us)
            self._take()
            if self.node.is_settled:
                return
        raise AssertionError("the edge does not settle")

    def _take(self) -> None:
        node = self.node
        self.dialled += [(dial.link, dial.place) for dial in node.dials]
        node.dials.clear()
        for link, frame in node.upstream:
            self.written.setdefault(link, []).append(bytes(frame))
            self.said.setdefault(link, []).append(
                bundle.parse(frame) if frame[4] == 1 else frames.decode_from_client(frame)
            )
        node.upstream.clear()
        self.hung_up += node.hang_ups
        node.hang_ups.clear()
        for numbers, frame, _ in node.frames:
            found: list[Told] = (
                [*bundle.decode(bytes(frame))] if frame[4] == 1 else [frames.decode_to_edge(frame)]
            )
            for number in numbers:
                self.told.setdefault(number, []).extend(found)
                self.raw.setdefault(number, []).append(bytes(frame))
        node.frames.clear()
        self.ended |= dict(node.endings)
        node.endings.clear()

    def wait(self, us: int, *beating: int) -> None:
        """Let time pass; the attachments at these links say something now and then."""
        until_us = self.now_us + us
        while self.now_us < until_us:
            due_us = self.node.next_deadline_us()
            step_us = until_us if due_us is None else max(self.now_us + 1, min(due_us, until_us))
            self.now_us = min(step_us, self.now_us + 200_000)
            for link in beating:
                self.hear(link, edges.Beat())
            self.node.timeout(self.now_us)
            self.settle()

    # Attachments ------------------------------------------------------------------------------------------

    def link(self, place: int = 0) -> int:
        """The newest link to an address."""
        return next(link for link, where in reversed(self.dialled) if where == place)

    def hear(self, link: int, *values: edges.OnlyToEdge | frames.FromDaemon | bytes) -> None:
        """An attachment says something."""
        for value in values:
            frame = value if isinstance(value, bytes) else frames.encode_control(value)
            self.node.heard(link, frame[4], memoryview(frame), self.now_us)
        self.settle()

    def greet(self, place: int = 0, path: tuple[str, ...] = (), daemon: str = "d1") -> int:
        """An attachment is there, and takes the edge."""
        link = self.link(place)
        self.node.dialled(link, self.now_us)
        self.settle()
        name = path[0] if path else f"d{place + 1}"
        self.hear(link, edges.Attached(frames.PROTOCOL_VERSION, name, daemon, path, 1 << 20, 500_000))
        return link

    def attach(self, place: int = 0) -> int:
        """As `greet`, and it feeds the view 10."""
        link = self.greet(place)
        self.hear(link, edges.Part(10))
        return link

    def breaks(self, link: int, reason: str = "reset") -> None:
        self.node.broken(link, reason, self.now_us)
        self.settle()

    def base(self, link: int, group: str, place: int, *members: str) -> View:
        """A group begins to flow at a place."""
        view = view_of(group, max(1, place - 1), *members)
        self.hear(link, edges.Base(view, Position(10, 0, place)))
        return view

    def sponsor(self, link: int, session: int, number: int, daemon: int = 3) -> None:
        """The attachment sponsors a session, under this number."""
        self.hear(link, edges.Sponsored(session, number, daemon, 9))

    def spoken(self, link: int, kind: type) -> list[Said]:
        """What the edge said of one kind."""
        return [one for one in self.said.get(link, []) if isinstance(one, kind)]

    # Clients ----------------------------------------------------------------------------------------------

    def connect(self, name: str = "bob", **options: bool | int | str) -> int:
        answer = self.node.connect(frames.Connect(frames.PROTOCOL_VERSION, name, **options), self.now_us)
        assert isinstance(answer, frames.Welcome), answer
        self.settle()
        return answer.session

    def ask(self, session: int, *requests: frames.FromClient | edges.FromEdge) -> None:
        for request in requests:
            self.node.control(session, request, self.now_us)
        self.settle()

    def send(
        self,
        session: int,
        *payloads: bytes,
        groups: tuple[str, ...] = ("chat",),
        service: Service = Service.AGREED,
        name: str = "",
        flags: int = 0,
    ) -> None:
        client = self.node.sessions.get(session)
        assert client is not None
        names = bundle.names_area(name or client.private_name, groups)
        data = bytearray(b"".join(bundle.encode(names, len(groups), service, payloads, flags=flags)))
        self.node.submit(session, [data], self.now_us)
        self.settle()

    def payloads(self, session: int) -> list[bytes]:
        return [one.payload for one in self.told.get(session, []) if isinstance(one, Message)]

    def of(self, session: int, kind: type) -> list[Told]:
        """What a session was told of one kind."""
        return [one for one in self.told.get(session, []) if isinstance(one, kind)]

    def views(self, session: int) -> list[View]:
        return [one.view for one in self.of(session, frames.ViewFrame) if isinstance(one, frames.ViewFrame)]
