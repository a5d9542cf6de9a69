"""Bundles of one session that wait behind one another travel as one.

No sentence of the papers, which leave open how messages are packed; docs/explanation/architecture.md, step 2.
"""

import pytest
from packets_seen import bundles_in
from small_worlds import Cluster

from antiphon import limits
from antiphon.service import Service
from antiphon.types import Message
from antiphon.wire import bundle, frames
from antiphon.wire.bundle import Flag

ORDERED = [service for service in Service if service is not Service.UNRELIABLE]


class Sender:
    """A client at a daemon of its own, whose bundles wait until `go`; `reader` is at another daemon."""

    def __init__(self) -> None:
        self.cluster = Cluster(2)
        self.name, self.reader = self.cluster.members()
        self.node = self.cluster.nodes[0]
        self.session = self.cluster._clients[self.name][1]

    def encode(
        self,
        *payloads: bytes,
        group: str = "g",
        service: Service = Service.AGREED,
        flags: int = 0,
        tag: int = 0,
        sent_us: int = 0,
        marks: int = 0,
    ) -> bytearray:
        names = bundle.names_area(self.name, (group,))
        return bytearray().join(
            bundle.encode(names, 1, service, payloads, flags=flags, tag=tag, sent_us=sent_us, marks=marks)
        )

    def wait(self, *data: bytearray) -> None:
        self.node.submit(self.session, data, self.cluster.now_us)

    def go(self) -> list[Message]:
        """What the reader gets."""
        self.cluster.crossed.clear()
        self.cluster._drain(0)
        self.cluster.run(100_000)
        return [event for event in self.cluster.events[self.reader] if isinstance(event, Message)]

    @property
    def bundles(self) -> list[int]:
        """How many messages each bundle had that crossed the link."""
        found = {
            carried.place: carried.header.message_count
            for _, receiver, data in self.cluster.crossed
            for carried in bundles_in(data)
            if receiver == 1 and not carried.header.flags & ~Flag.CLIENT
        }
        return list(found.values())


@pytest.mark.parametrize("service", ORDERED)
def test_what_waits_together_travels_together(service: Service) -> None:
    sender = Sender()
    sender.wait(*(sender.encode(b"%d" % turn, service=service) for turn in range(10)))
    messages = sender.go()
    assert [message.payload for message in messages] == [b"%d" % turn for turn in range(10)]
    assert sender.bundles == [10]


def test_a_lone_bundle_is_not_touched() -> None:
    """Nothing waits for company, and nothing is copied."""
    sender = Sender()
    alone = sender.encode(b"alone")
    sender.wait(alone)
    pending = next(iter(sender.node.sessions.get(sender.session).input))
    assert pending.bundle is alone and pending.joined() is pending
    assert [message.payload for message in sender.go()] == [b"alone"]


def test_messages_keep_their_identities() -> None:
    """A message is the same whether its bundle was gathered or not: events between them are numbered, too."""
    ids = []
    for gathers in (False, True):
        sender = Sender()
        for turn in range(6):
            sender.wait(sender.encode(b"%d" % turn, *([b"more"] if turn == 2 else [])))
            if turn == 3:
                sender.node.control(sender.session, frames.Join("other"), sender.cluster.now_us)
            if not gathers:
                sender.go()
        messages = sender.go()
        ids.append([(message.id, message.payload) for message in messages])
        assert not gathers or sender.bundles == [5, 2]
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    "other",
    [
        {"service": Service.SAFE},
        {"group": "h"},
        {"tag": 1},
        {"flags": Flag.SELF_DISCARD},
        {"marks": 1 << Service.AGREED},
        {"sent_us": 5},
        {"sent_us": 10 + limits.GATHER_SPAN_US + 1},
    ],
)
def test_what_differs_travels_alone(other: dict[str, int]) -> None:
    sender = Sender()
    for name in (sender.name, sender.reader):
        sender.cluster.join(name, "h")
    sender.cluster.settle()
    fields = {"sent_us": 10}
    sender.wait(*(sender.encode(b"a%d" % turn, **fields) for turn in range(3)))
    sender.wait(*(sender.encode(b"b%d" % turn, **{**fields, **other}) for turn in range(2)))
    sender.wait(sender.encode(b"c", **fields))
    messages = sender.go()
    assert [message.payload for message in messages] == [b"a0", b"a1", b"a2", b"b0", b"b1", b"c"]
    # The last one is as late as the first bundle of its own, which it may follow only in that case.
    assert sender.bundles == ([3, 3] if other == {"sent_us": 5} else [3, 2, 1])
    sent = [message.envelope.sent_us for message in messages]
    assert sent[0] == 10 and sent[3] == other.get("sent_us", 10)


def test_the_time_of_sending_is_that_of_the_first() -> None:
    sender = Sender()
    step_us = limits.GATHER_SPAN_US // 4
    sender.wait(*(sender.encode(b"%d" % turn, sent_us=1_000 + turn * step_us) for turn in range(8)))
    times = [message.envelope.sent_us for message in sender.go()]
    assert times == [1_000] * 5 + [1_000 + 5 * step_us] * 3


def test_unreliable_messages_travel_alone() -> None:
    """One lost packet would take all of them."""
    sender = Sender()
    sender.wait(*(sender.encode(b"%d" % turn, service=Service.UNRELIABLE) for turn in range(4)))
    assert len(sender.node.sessions.get(sender.session).input) == 4
    assert len(sender.go()) == 4


def test_batches_travel_alone() -> None:
    """Each bundle of a batch begins with a stamp, by which receivers recognise what comes again."""
    sender = Sender()
    stamps = [b"query/0/1/1/%d" % turn for turn in range(2)]
    sender.wait(*(sender.encode(stamp, b"row", flags=Flag.BATCH) for stamp in stamps), sender.encode(b"row"))
    messages = sender.go()
    assert [message.payload for message in messages] == [b"row"] * 3
    assert [str(message.batch) for message in messages[:2]] == [stamp.decode() for stamp in stamps]
    assert sender.bundles == [2, 2, 1]


def test_a_gathered_bundle_is_bounded() -> None:
    sender = Sender()
    payload = bytes(1_000)
    sender.wait(*(sender.encode(payload) for _ in range(130)))
    waiting = sender.node.sessions.get(sender.session).input
    assert [pending.joined().header.message_count for pending in waiting] == [59, 59, 12]
    assert len(sender.go()) == 130


def test_large_bundles_are_not_copied() -> None:
    sender = Sender()
    sender.wait(*(sender.encode(bytes(limits.GATHER_MAX_BYTES)) for _ in range(3)))
    assert all(pending.gathering is None for pending in sender.node.sessions.get(sender.session).input)
    assert len(sender.go()) == 3


def test_what_waits_is_counted_as_it_came() -> None:
    """A queue has room for so many bytes that were read, however these travel."""
    sender = Sender()
    data = [sender.encode(b"%d" % turn) for turn in range(50)]
    sender.wait(*data)
    sessions = sender.node.sessions
    session = sessions.get(sender.session)
    assert session.input_bytes == sessions.input_bytes == sum(map(len, data))
    assert sessions.waiting == 1
    sender.go()
    assert session.input_bytes == sessions.input_bytes == sessions.waiting == 0


def test_bundles_of_several_messages_are_gathered_too() -> None:
    sender = Sender()
    sender.wait(*(sender.encode(*(b"%d" % turn for turn in range(count))) for count in (1, 3, 2, 2, 1)))
    assert [message.payload for message in sender.go()] == [
        b"0",
        b"0",
        b"1",
        b"2",
        b"0",
        b"1",
        b"0",
        b"1",
        b"0",
    ]
    assert sender.bundles == [9]


def test_sessions_take_turns_and_are_not_mixed() -> None:
    cluster = Cluster(2)
    _, reader = cluster.members()
    names = [cluster.client(0, name) for name in ("ann", "ben")]
    node = cluster.nodes[0]
    for turn in range(3):
        for name in names:
            data = b"".join(bundle.encode(bundle.names_area(name, ("g",)), 1, Service.AGREED, [b"%d" % turn]))
            node.submit(cluster._clients[name][1], (bytearray(data),), cluster.now_us)
    cluster._drain(0)
    cluster.settle()
    senders = [event.sender for event in cluster.events[reader] if isinstance(event, Message)]
    assert senders == [names[0]] * 3 + [names[1]] * 3
