"""Causal histories: what is told on the wire, kept of a past, and waited for."""

from types import SimpleNamespace

import pytest

from antiphon import limits
from antiphon.core.ordering.causal import CausalQueue
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.histories import Histories
from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.wire import bundle
from antiphon.wire.extensions import HISTORY, Extension
from antiphon.wire.history import Cause, History, extension, history_of

LTS = 10_240


def header(
    daemon: int,
    session: int,
    number: int,
    lts: int,
    sites: int,
    history: Extension | None = None,
    service: Service = Service.CAUSAL,
) -> bundle.Header:
    fields = () if history is None else (history,)
    return bundle.Header(
        0, service, 0, b"", 1, 0, daemon, session, 7, number, number, 0, lts, 0, sites, 0, 0, fields
    )


# On the wire ----------------------------------------------------------------------------------------------


def test_a_history_on_the_wire() -> None:
    causes = (Cause(2, 5, 9, LTS - 1_024, 0b101), Cause(0, 1, 2, LTS - 2_048, 0b1))
    told = extension(LTS, History(LTS - 4_096, LTS - 8_192, causes))
    assert told.type == HISTORY == 0x8010
    assert told.value == bytes.fromhex("9C CD1001 CD2001 02 05 09 CD0400 05 00 01 02 CD0800 01")
    assert history_of(header(1, 1, 1, LTS, 1, told)) == History(LTS - 4_096, LTS - 8_192, causes)
    assert history_of(header(1, 1, 1, LTS, 1, extension(LTS, History()))) == History()
    assert history_of(header(1, 1, 1, LTS, 1)) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "DecodeError"),
        ("C0", "ValidationError"),
        ("90", "impossible"),
        ("93 00 00 00", "impossible"),
        ("92 00 FF", "impossible"),
        ("92 00 CD3000", "impossible"),
        ("97 00 00 00 00 01 CD3000 01", "impossible cause"),
        ("97 00 00 CD0200 00 01 01 01", "impossible cause"),
        ("97 00 00 00 01 00 01 01", "impossible cause"),
    ],
)
def test_what_no_daemon_can_have_written_is_refused(value: str, reason: str) -> None:
    with pytest.raises(BadFrame, match=f"history: {reason}$"):
        history_of(header(1, 1, 1, LTS, 1, Extension(HISTORY, bytes.fromhex(value))))


def test_a_bundle_gets_its_history_behind_its_names_and_keeps_all_else() -> None:
    names = bundle.names_area("#ann#d", ["news"])
    data = bytearray(b"".join(bundle.encode(names, 1, Service.CAUSAL, [b"one", b"two"], tag=3, sent_us=9)))
    extended, told = bundle.extend(data, bundle.parse(data), extension(LTS, History()))
    assert bundle.parse(extended) == told and told.length == len(data) + 4 + 3
    assert bundle.payloads(bytes(extended), told) == [b"one", b"two"]
    assert (told.names, told.tag, told.sent_us) == (names, 3, 9)


# Pasts ----------------------------------------------------------------------------------------------------


class Past:
    """The histories of daemon 0 at site 0, of which everything that came is resolved."""

    def __init__(self, *, alone: bool = True) -> None:
        self.order = SimpleNamespace(
            causal=SimpleNamespace(is_resolved=lambda sender, number, lts: self.is_resolved),
            lines=SimpleNamespace(stable=0),
            highest_lts=0, loose_lts=0,
        )  # fmt: skip
        self.is_resolved = True
        self.histories = Histories(0, 0, self.order, {0: 1 if alone else 3})  # type: ignore[arg-type]
        self.histories.begin()

    def hear(self, daemon: int, session: int, number: int, sites: int, *causes: Cause) -> None:
        told = extension(number * 1_024, History(causes=causes))
        self.histories.heard((1,), header(daemon, session, number, number * 1_024, sites, told))

    def look(self, lts: int = 1 << 30) -> History:
        told = history_of(header(0, 1, 1, lts, 1, self.histories.look(1, lts)[1]))
        assert told is not None
        return told

    def causes(self) -> set[tuple[int, int, int, int]]:
        return {(one.daemon, one.session, one.number, one.sites) for one in self.look().causes}


def test_what_a_session_got_is_a_cause_for_the_sites_that_may_lack_it() -> None:
    past = Past()
    past.hear(1, 4, 10, 0b1111)
    assert past.causes() == {(1, 4, 10, 0b1110)}


def test_the_past_of_what_it_got_is_a_cause_where_that_was_not_reported() -> None:
    past = Past()
    past.hear(1, 4, 10, 0b0011, Cause(2, 8, 3, 3_072, 0b1110))
    assert past.causes() == {(1, 4, 10, 0b0010), (2, 8, 3, 0b1100)}


def test_a_later_message_of_a_sender_stands_for_its_earlier_ones_where_it_went() -> None:
    past = Past()
    past.hear(1, 4, 10, 0b1111)
    past.causes()
    past.hear(1, 4, 12, 0b0111)
    assert past.causes() == {(1, 4, 10, 0b1000), (1, 4, 12, 0b0110)}


def test_one_cause_told_in_two_ways_is_needed_where_both_say_so() -> None:
    past = Past()
    past.hear(1, 4, 10, 0b0011, Cause(2, 8, 3, 3_072, 0b1100))
    past.hear(3, 1, 11, 0b0101, Cause(2, 8, 3, 3_072, 0b1110))
    assert (2, 8, 3, 0b1000) in past.causes()


def test_what_has_come_everywhere_is_told_as_a_line() -> None:
    past = Past()
    past.hear(1, 4, 10, 0b0111)
    past.hear(2, 1, 20, 0b0111)
    past.order.lines.stable = 15 * 1_024
    told = past.look()
    assert [cause.number for cause in told.causes] == [20]
    assert (told.floor, told.stable) == (0, 10 * 1_024)


@pytest.mark.parametrize("why", ["unresolved", "late copy", "no history"])
def test_what_is_not_known_exactly_is_told_as_a_floor(why: str) -> None:
    past = Past()
    past.is_resolved = why != "unresolved"
    sites = 0b0110 if why == "late copy" else 0b0111
    told = None if why == "no history" else extension(10_240, History())
    past.histories.heard((1,), header(1, 4, 10, 10_240, sites, told))
    assert past.look() == History(floor=10_240)


def test_an_unreliable_message_hands_its_past_on_and_is_no_cause() -> None:
    past = Past()
    told = extension(10_240, History(causes=(Cause(2, 8, 3, 3_072, 0b0111),)))
    past.histories.heard((1,), header(1, 4, 1, 10_240, 0b1, told, Service.UNRELIABLE))
    assert past.causes() == {(2, 8, 3, 0b0111)}


def test_what_was_said_at_a_daemon_leaves_it_only_if_others_are_at_its_site() -> None:
    """R9: messages exchanged between processes of the same node are filtered out. (NAVTECH 4.3)"""
    for alone, causes in ((True, set()), (False, {(0, 4, 10, 0b0001)})):
        past = Past(alone=alone)
        past.hear(0, 4, 10, 0b0001)
        assert past.causes() == causes


def test_a_past_with_too_many_causes_forgets_the_older_half_for_a_floor() -> None:
    past = Past()
    for number in range(1, limits.PAST_CAUSES_MAX + 2):
        past.hear(1, number, number, 0b0111)
    told = past.look()
    assert past.histories.kept_causes <= limits.PAST_CAUSES_MAX
    assert told.floor and len(told.causes) < limits.PAST_CAUSES_MAX
    oldest = min(cause.lts for cause in told.causes)
    assert told.floor == oldest - 1_024  # none between


def test_a_session_that_ended_is_forgotten() -> None:
    past = Past()
    past.hear(1, 4, 10, 0b1111)
    past.histories.forget(1)
    assert past.causes() == set()


# Waiting --------------------------------------------------------------------------------------------------


class Queue:
    """The queue of a daemon at site 1, which notes what it delivers ahead of its place."""

    def __init__(self) -> None:
        self.ahead: list[int] = []
        self.queue = CausalQueue(1, self._deliver)

    def _deliver(self, entry: Entry) -> None:
        self.ahead.append(entry.header.number)
        self.hand_up(entry)

    def hand_up(self, entry: Entry) -> None:
        entry.delivered = True
        self.queue.handed_up(entry)

    def come(
        self, number: int, *causes: int, sites: int = 0b10, may_overtake: bool = True, floor: int = 0
    ) -> Entry:
        """Bundles of daemon 0, each of a session of its own."""
        entry = Entry(0, header(0, number, number, number * 1_024, 0b11), b"")
        told = tuple(Cause(0, cause, cause, cause * 1_024, sites) for cause in causes)
        self.queue.came(entry, History(floor, 0, told), may_overtake)
        return entry


def test_a_bundle_waits_for_its_causes_and_theirs() -> None:
    world = Queue()
    world.come(3, 2)
    world.come(2, 1)
    assert world.ahead == [] and world.queue.waiting_count == 2
    world.come(1)
    assert world.ahead == [1, 2, 3] and world.queue.waiting_count == 0


def test_causes_for_other_sites_are_not_waited_for() -> None:
    world = Queue()
    world.come(2, 1, sites=0b01)
    assert world.ahead == [2]


def test_a_reliable_bundle_has_resolved_once_its_past_has() -> None:
    world = Queue()
    reliable = world.come(2, 1, may_overtake=False)
    world.hand_up(reliable)
    world.come(3, 2)
    assert world.ahead == []
    world.come(1)
    assert world.ahead == [1, 3]


def test_what_is_behind_the_line_has_resolved() -> None:
    world = Queue()
    world.come(9, 3, 4)
    world.come(10, floor=5 * 1_024)
    world.queue.reach(4 * 1_024)
    assert world.ahead == [9]
    world.queue.reach(5 * 1_024)
    assert world.ahead == [9, 10]


def test_what_is_born_after_a_late_copy_waits_for_it() -> None:
    world = Queue()
    world.queue.came_late(4 * 1_024)
    world.come(3)
    world.come(5)
    assert world.ahead == [3]
    world.queue.reach(4 * 1_024)
    assert world.ahead == [3, 5]


def test_nothing_is_delivered_ahead_of_its_place_in_a_view_that_has_stopped() -> None:
    world = Queue()
    world.come(2, 1)
    world.queue.stop()
    world.come(1)
    assert world.ahead == []


def test_long_chains_of_causes_do_not_exhaust_the_stack() -> None:
    world = Queue()
    for number in range(5_000, 1, -1):
        world.come(number, number - 1)
    world.come(1)
    assert world.ahead == list(range(1, 5_001))
