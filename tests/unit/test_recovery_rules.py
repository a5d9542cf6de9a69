"""What the members of a view owe one another at its end, worked out from tables of who has what."""

import tracemalloc

import msgspec
import pytest

from antiphon import limits
from antiphon.core.membership.recovery import MemberState, Recovery, control_bundle
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.ranges import numbers, to_ranges
from antiphon.core.ordering.state import OrderState, SourceState, encode_state, parse_state
from antiphon.core.ordering.symmetric import SymmetricOrder
from antiphon.service import Service
from antiphon.wire import bundle, packet
from antiphon.wire.bundle import Flag
from antiphon.wire.packet import Data, Fragment, PacketKind

VIEW = 500
ALL = 0xFFFF


def known(source: int, contiguous: int, lts: int, highest: int, *, ahead=(), retained=()) -> SourceState:
    """What a daemon knows of a source's bundles; `ahead` and `retained` are numbers, the lts of bundles ten
    times those."""
    stamped = tuple((first, last, 10 * last) for first, last in to_ranges(ahead))
    return SourceState(source, contiguous, lts, highest, stamped, to_ranges(retained))


def state(
    *sources: SourceState, clock: int = 1_000, delivered: int = 0, stable: int = 0, **changes: object
) -> MemberState:
    told = encode_state(OrderState(clock, delivered, stable, sources))
    blank = MemberState(view=VIEW, committed=(), committed_line=0, joining=(), order=msgspec.Raw(told))
    return msgspec.structs.replace(blank, **changes)


def recovery_of(me: int, view: int, states: dict[int, MemberState], lost: tuple[int, ...] = (9,)) -> Recovery:
    """The view had the daemons in `states` and those in `lost`."""
    segments = tuple((daemon,) for daemon in sorted({*states, *lost}))
    return Recovery(me, view, SymmetricOrder(10, me, segments), states)


def entry(source: int, number: int, lts: int = 0, *, service=Service.AGREED, groups=("g",), flags=0) -> Entry:
    """A bundle that somebody holds."""
    names = bundle.names_area("#c#d", groups)
    data = bytearray(b"".join(bundle.encode(names, len(groups), service, [b"x"], flags=flags)))
    header = msgspec.structs.replace(bundle.parse(data), daemon=source, number=number, lts=lts)
    return Entry(source, header, bytes(data), place=lts)


def duties(states: dict[int, MemberState], *retained: Entry) -> dict[int, list[tuple[int, list[int]]]]:
    """For each daemon: (number, who needs it) of what it must send again, if it retains all of `retained`."""
    result = {}
    for daemon, its in states.items():
        has = {
            (known.source, number)
            for known in parse_state(bytes(its.order)).sources
            for number in numbers(known.retained)
        }
        mine = [one for one in retained if (one.source, one.header.number) in has]
        lost = tuple(known.source for known in parse_state(bytes(its.order)).sources)
        recovery = recovery_of(daemon, VIEW, states, lost)
        result[daemon] = [(one.header.number, sorted(who)) for one, who in recovery.to_send(mine)]
    return result


# Who comes along ------------------------------------------------------------------------------------------


def test_those_of_the_same_view_come_along() -> None:
    states = {0: state(), 1: state(), 2: state(view=501), 5: state()}
    for daemon in (0, 1, 5):
        assert recovery_of(daemon, VIEW, states).together == {0, 1, 5}
    assert recovery_of(2, 501, states).together == {2}


def test_states_of_other_views_do_not_count() -> None:
    mine = state(known(0, 3, 30, 3, retained=(1, 2, 3)), delivered=20, stable=10)
    other = state(
        known(0, 1, 90, 9, retained=(9,)), view=501, delivered=900, stable=900, clock=9_000, committed=(7,)
    )
    recovery = recovery_of(0, VIEW, {0: mine, 1: other})
    ending = recovery.ending
    assert (ending.delivered_line, ending.stable_line, ending.last_line) == (20, 10, 1_000)
    assert recovery.committed == {0}
    assert list(recovery.to_send([entry(0, 3, 30)])) == []


# Who sends what again -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param(
            {
                0: state(known(0, 3, 30, 3, retained=(2, 3))),
                1: state(known(0, 3, 30, 3, retained=(2, 3))),
            },
            {0: [], 1: []},
            id="nobody lacks anything",
        ),
        pytest.param(
            {
                0: state(known(0, 3, 30, 3, retained=(2, 3))),
                1: state(known(0, 3, 30, 3, retained=(2, 3))),
                2: state(known(0, 1, 10, 1, retained=())),
            },
            {0: [(2, [2]), (3, [2])], 1: [], 2: []},
            id="the source itself, if it is there",
        ),
        pytest.param(
            {
                1: state(known(0, 3, 30, 3, retained=(2, 3))),
                2: state(known(0, 3, 30, 3, retained=(2, 3))),
                3: state(known(0, 2, 20, 2, retained=(2,))),
            },
            {1: [(3, [3])], 2: [], 3: []},
            id="else the next one that has it",
        ),
        pytest.param(
            {
                1: state(known(0, 1, 10, 3, ahead=(3,), retained=(3,))),
                2: state(known(0, 2, 20, 2, retained=(2,))),
            },
            {1: [(3, [2])], 2: [(2, [1])]},
            id="each what the other lacks",
        ),
        pytest.param(
            {
                1: state(known(0, 3, 30, 3, retained=(1, 2, 3))),
                2: state(),
            },
            {1: [(1, [2]), (2, [2]), (3, [2])], 2: []},
            id="one who has heard nothing of the source lacks all",
        ),
        pytest.param(
            {
                1: state(known(0, 1, 10, 3, ahead=(3,), retained=(3,))),
                2: state(known(0, 1, 10, 1)),
            },
            {1: [(3, [2])], 2: []},
            id="what nobody has is not sent",
        ),
    ],
)
def test_what_is_sent_again(
    states: dict[int, MemberState], expected: dict[int, list[tuple[int, list[int]]]]
) -> None:
    retained = [entry(0, number, 10 * number) for number in (1, 2, 3)]
    assert duties(states, *retained) == expected


def test_each_bundle_has_exactly_one_who_sends_it() -> None:
    """Whatever each one has, everybody works out the same."""
    for seed in range(64):
        having = {
            daemon: [n for n in range(1, 7) if (seed * 7919 + daemon * 31 + n * 17) % 3]
            for daemon in (1, 2, 4)
        }
        states = {
            daemon: state(known(0, 0, 0, 6, ahead=tuple(has), retained=tuple(has)))
            for daemon, has in having.items()
        }
        retained = [entry(0, number, 10 * number) for number in range(1, 7)]
        sent = [number for its in duties(states, *retained).values() for number, _ in its]
        lacked = {n for n in range(1, 7) if 0 < sum(n in has for has in having.values()) < 3}
        assert sorted(sent) == sorted(lacked)


@pytest.mark.parametrize(
    ("joining", "groups", "lts", "flags", "expected"),
    [
        ((("g", 15),), ("g",), 20, 0, [1]),
        ((("g", 25),), ("g",), 20, 0, []),
        ((("other", 15),), ("g",), 20, 0, []),
        ((("other", 15),), ("g", "other"), 20, 0, [1]),
        ((("g", 15),), ("g",), 20, Flag.EVENT, []),
        ((), ("g",), 20, 0, []),
    ],
)
def test_what_was_pruned_from_a_joiner_is_sent_to_it(joining, groups, lts, flags, expected) -> None:
    """Daemon 1 knows that number 2 is not for it; but its join comes before."""
    states = {
        0: state(known(3, 2, lts, 2, retained=(2,))),
        1: state(known(3, 2, lts, 2), joining=joining),
    }
    pruned = entry(3, 2, lts, groups=groups, flags=flags)
    assert duties(states, pruned)[0] == ([(2, expected)] if expected else [])


# What is delivered ----------------------------------------------------------------------------------------


def hole_at(*, lts: int = 20, **changes: object) -> dict[int, MemberState]:
    """Daemon 9 is lost; its number 3 is with nobody, number 4 with daemon 0; both have it up to `lts`."""
    return {
        0: state(known(9, 2, lts, 4, ahead=(4,), retained=(2, 4)), **changes),
        1: state(known(9, 2, lts, 4, retained=(2,))),
    }


@pytest.mark.parametrize(
    ("source", "lts", "service", "expected"),
    [
        (9, 20, Service.AGREED, True),
        (9, 21, Service.AGREED, False),
        (9, 21, Service.SAFE, False),
        (9, 21, Service.CAUSAL, False),
        (9, 21, Service.FIFO, True),
        (9, 21, Service.RELIABLE, True),
        (8, 21, Service.AGREED, False),
        (0, 21, Service.AGREED, True),
        (1, 99, Service.SAFE, True),
    ],
)
def test_after_a_hole(source: int, lts: int, service: Service, expected: bool) -> None:
    """Strong messages of lost senders are dropped, wherever the hole is; all others are delivered."""
    for me in (0, 1):
        recovery = recovery_of(me, VIEW, hole_at())
        assert recovery.committed_line == 20
        assert recovery.is_delivered(entry(source, 4, lts, service=service)) is expected


def test_without_a_hole_everything_is_delivered() -> None:
    states = {0: state(known(9, 4, 40, 4, retained=(3, 4))), 1: state(known(9, 2, 20, 4, retained=(2,)))}
    recovery = recovery_of(1, VIEW, states)
    assert recovery.committed_line == 40
    assert recovery.is_delivered(entry(9, 4, 40, service=Service.SAFE))


def test_if_nobody_is_lost_everything_is_delivered() -> None:
    states = {0: state(known(0, 4, 40, 4, retained=(3, 4))), 1: state(known(0, 2, 20, 4, retained=(2,)))}
    assert recovery_of(1, VIEW, states, lost=()).committed_line == limits.COUNTER_MAX


@pytest.mark.parametrize(("lts", "expected"), [(25, True), (26, False)])
def test_where_the_knowledge_of_a_lost_source_ends_there_may_be_a_hole(lts: int, expected: bool) -> None:
    """Daemon 8 has sent nothing that is known here, but may have after 25."""
    mine = state(known(8, 0, 25, 0), known(9, 4, 40, 4, retained=(3, 4)))
    other = state(known(8, 0, 7, 0), known(9, 4, 40, 4, retained=(3, 4)))
    recovery = recovery_of(0, VIEW, {0: mine, 1: other}, lost=(8, 9))
    assert recovery.is_delivered(entry(9, 3, lts)) is expected


def test_members_know_of_a_source_what_they_have_together() -> None:
    """One has the second bundle, the other one the third."""
    states = {
        0: state(known(9, 2, 20, 2, retained=(2,))),
        1: state(known(9, 1, 10, 3, ahead=(3,), retained=(3,))),
    }
    assert recovery_of(0, VIEW, states).committed_line == 30


def test_what_a_member_has_delivered_is_delivered_whatever_is_missing() -> None:
    recovery = recovery_of(1, VIEW, hole_at(delivered=35))
    assert recovery.is_delivered(entry(9, 4, 35))
    assert not recovery.is_delivered(entry(9, 4, 36))


def test_what_no_member_has_delivered_does_not_count_as_delivered() -> None:
    """Daemon 1 has come further, because the bundle was not for it."""
    states = hole_at()
    states[1] = state(known(9, 4, 40, 4, retained=(2,)), delivered=90)
    assert not recovery_of(0, VIEW, states).is_delivered(entry(9, 4, 40))


def test_promises_of_failed_attempts_are_kept() -> None:
    recovery = recovery_of(1, VIEW, hole_at(committed=(0, 8), committed_line=50))
    assert recovery.committed == {0, 1, 8}
    assert recovery.is_delivered(entry(8, 1, 99))
    assert recovery.is_delivered(entry(9, 5, 50)), "a line is a promise, too"
    assert not recovery.is_delivered(entry(9, 6, 51))


def test_numbers_that_all_know_as_skipped_are_no_hole() -> None:
    skipped = known(9, 2, 20, 4, ahead=(3, 4), retained=(4,))
    recovery = recovery_of(0, VIEW, {0: state(skipped), 1: state(skipped)})
    assert recovery.committed_line == 40


def test_the_earliest_hole_of_any_source_counts() -> None:
    states = {
        0: state(
            known(8, 1, 70, 3, ahead=(3,), retained=(3,)), known(9, 1, 40, 3, ahead=(3,), retained=(3,))
        ),
        1: state(known(8, 1, 70, 3, ahead=(3,)), known(9, 1, 40, 3, ahead=(3,))),
    }
    assert recovery_of(0, VIEW, states, lost=(8, 9)).committed_line == 40


def test_a_number_that_is_far_ahead_costs_no_memory() -> None:
    """A forged packet makes it known; each number before it is lacking."""
    far = known(9, 2, 20, 2 + limits.OUTSTANDING_MAX, retained=(2,))
    tracemalloc.start()
    recovery = recovery_of(0, VIEW, {0: state(far), 1: state(far)})
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert recovery.committed_line == 20, "the first number that nobody has is a hole"
    assert peak_bytes < 1_000_000


# Before or after the signal -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [((), 10), ((0,), 40), ((1,), 25), ((0, 1), 40), ((7,), 10), ((1, 7), 25)],
)
def test_the_certain_part_of_the_stream(hosts: tuple[int, ...], expected: int) -> None:
    """Up to the stable line, or to what a member that hosts the group has delivered."""
    states = {0: state(delivered=40, stable=10), 1: state(delivered=25, stable=5)}
    assert {recovery_of(me, VIEW, states).ending.line_of(hosts) for me in states} == {expected}


# Its bytes ------------------------------------------------------------------------------------------------


def test_the_largest_bundle_can_be_sent_again() -> None:
    """A client's bundle may fill a frame; wrapped to be sent again it is still one that daemons accept."""
    wrapped = len(control_bundle(bytes(limits.FRAME_MAX_BYTES), Flag.RECOVERED).data)
    fragment = Fragment(0, 1, ALL, wrapped, wrapped - 5, b"bytes")
    prefix = packet.prefix(PacketKind.DATA, digest=0, sender=0, receiver=1, incarnation=1, view=VIEW)
    data = packet.whole(prefix, b"".join(packet.fragment_item(fragment, 0, 5)), 1, counter=1)
    parsed = packet.parse(memoryview(data))
    assert isinstance(parsed, Data) and parsed.items == [fragment]


@pytest.mark.parametrize("service", Service)
def test_control_bundles_look_like_bundles(service: Service) -> None:
    data, known = control_bundle(b"body", Flag.PHASE, service)
    header = bundle.parse(data)
    assert known == header, "what is known of a bundle that was just made is what stands in it"
    assert (header.flags, header.service, bundle.payloads(bytes(data), header)) == (
        Flag.PHASE,
        service,
        [b"body"],
    )
