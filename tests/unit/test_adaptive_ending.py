"""The end of a view in the adaptive order: what is told of places, and who gets which."""

from time import perf_counter

import msgspec
import pytest

from antiphon import limits
from antiphon.core.ordering.adaptive import AdaptiveOrder
from antiphon.core.ordering.adaptive_ending import (
    AdaptiveEnding,
    AdaptiveState,
    PlacedRun,
    PlacedRuns,
    give_places,
    parse_adaptive_state,
)
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.stability import stamp_after
from antiphon.core.ordering.state import SourceState, encode_state
from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.wire.bundle import Header
from antiphon.wire.extensions import SEQUENCER, Extension

ROUND = 1_024
MOST = limits.COUNTER_MAX
SEGMENTS = ((0,), (1,), (2, 3))
START = 4 * ROUND
AT_ONCE_S = 1.0
"""A busy machine needs less for a few hundred runs, and much more for all of their numbers."""


def place(number: int) -> int:
    """A stamp of daemon 1, which gives the tickets."""
    return stamp_after((99 + number) * ROUND, 1)


# Places as runs -------------------------------------------------------------------------------------------


def test_consecutive_numbers_with_consecutive_stamps_make_one_run() -> None:
    runs = PlacedRuns()
    for number in range(3):
        runs.add(2, 5 + number, place(number))
    assert runs.runs() == ((2, 5, 7, place(0)),)


def test_a_number_that_is_missing_or_a_stamp_that_does_not_follow_begins_another_run() -> None:
    runs = PlacedRuns()
    runs.add(2, 5, place(0))
    runs.add(2, 7, place(2))  # number 6 is missing: its place may not be certain
    runs.add(2, 8, place(4))  # the sequencer has used a stamp for something else
    runs.add(2, 9, stamp_after(place(4), 0))  # another daemon gives the tickets
    runs.add(0, 10, place(5))  # another source
    assert runs.runs() == (
        (0, 10, 10, place(5)),
        (2, 5, 5, place(0)),
        (2, 7, 7, place(2)),
        (2, 8, 8, place(4)),
        (2, 9, 9, stamp_after(place(4), 0)),
    )


def test_the_place_of_each_number_inside_of_a_run_and_of_none_outside() -> None:
    runs = PlacedRuns([(2, 5, 7, place(0)), (2, 9, 9, place(20)), (0, 6, 6, place(30))])
    places = {number: runs.place_of(2, number) for number in range(4, 11)}
    assert places == {4: None, 5: place(0), 6: place(1), 7: place(2), 8: None, 9: place(20), 10: None}
    assert runs.place_of(0, 6) == place(30) and runs.place_of(0, 5) is None
    assert runs.place_of(1, 6) is None


def test_what_was_added_is_found() -> None:
    runs = PlacedRuns()
    told = {5: place(0), 6: place(1), 8: place(2), 9: place(9), 10: place(10)}
    for number, where in told.items():
        runs.add(2, number, where)
    assert {number: runs.place_of(2, number) for number in told} == told
    assert runs.place_of(2, 7) is None


def test_what_two_daemons_know_is_put_together() -> None:
    """Each of them has forgotten what it knew to be everywhere, and lacks what came to the other one only."""
    ours, theirs = PlacedRuns([(2, 5, 7, place(0))]), PlacedRuns([(2, 6, 9, place(1)), (0, 1, 1, place(30))])
    ours.merge(theirs)
    assert [ours.place_of(2, number) for number in range(4, 11)] == [
        None, *map(place, range(5)), None,
    ]  # fmt: skip
    assert ours.place_of(0, 1) == place(30)
    assert theirs.place_of(2, 5) is None


def test_what_both_know_is_there_once() -> None:
    ours, theirs = PlacedRuns([(2, 5, 7, place(0))]), PlacedRuns([(2, 5, 7, place(0)), (2, 9, 9, place(9))])
    ours.merge(theirs)
    ours.merge(theirs)
    assert ours.runs() == ((2, 5, 7, place(0)), (2, 9, 9, place(9)))


def test_a_short_run_inside_of_a_long_one_hides_nothing() -> None:
    runs = PlacedRuns([(2, 5, 20, place(0)), (2, 8, 9, place(3))])
    assert [runs.place_of(2, number) for number in (7, 9, 10, 20, 21)] == [
        place(2), place(4), place(5), place(15), None,
    ]  # fmt: skip


def test_runs_may_come_in_any_order() -> None:
    runs = PlacedRuns([(2, 9, 9, place(20)), (2, 5, 7, place(0))])
    assert runs.runs() == ((2, 5, 7, place(0)), (2, 9, 9, place(20)))
    assert runs.place_of(2, 6) == place(1)


def test_huge_runs_are_not_taken_apart() -> None:
    """A forged state may have runs of as many numbers as there may be on their way."""
    huge: list[PlacedRun] = [
        (source, 1, limits.OUTSTANDING_MAX, stamp_after(source * ROUND, 1)) for source in range(100)
    ]
    began_s = perf_counter()
    runs = PlacedRuns(huge)
    runs.merge(PlacedRuns([(0, 2, 1 + limits.OUTSTANDING_MAX, stamp_after(ROUND, 1))]))
    last = runs.place_of(99, limits.OUTSTANDING_MAX)
    assert runs.place_of(99, limits.OUTSTANDING_MAX + 1) is None
    assert len(runs.runs()) == 101
    assert perf_counter() - began_s < AT_ONCE_S
    assert last == stamp_after(99 * ROUND, 1) + (limits.OUTSTANDING_MAX - 1) * ROUND


# What members tell ----------------------------------------------------------------------------------------


def state_of(
    *,
    clock: int = 200 * ROUND,
    delivered: int = 90 * ROUND,
    stable: int = 80 * ROUND,
    sources: tuple[SourceState, ...] = (),
    last: int = 150 * ROUND,
    placed: tuple[PlacedRun, ...] = (),
    behind: tuple[tuple[int, int], ...] = (),
    unsafe: int = 0,
) -> AdaptiveState:
    return AdaptiveState(clock, delivered, stable, sources, last, placed, behind, unsafe)


def test_a_state_on_the_wire() -> None:
    sources = (SourceState(2, 7, 70, 9, ((9, 9, 90),), ((7, 7), (9, 9)), ((7, 7),)),)
    state = AdaptiveState(5, 4, 3, sources, 2, ((2, 7, 9, 1_025),), ((0, 6),), 1)
    told = encode_state(state)
    assert told == bytes.fromhex(
        "98 05 04 03"  # clock, delivered, stable
        "91 97 02 07 46 09 91 93 09 09 5A 92 92 07 07 92 09 09 91 92 07 07"  # what it knows of source 2
        "02"  # the clock when the view stopped
        "91 94 02 07 09 CD0401"  # of source 2, numbers 7 to 9 from this place on
        "91 92 00 06"  # of source 0, number 6 was not delivered
        "01"  # unsafe
    )
    assert parse_adaptive_state(told) == state


def test_a_state_with_the_greatest_numbers_is_read() -> None:
    state = state_of(
        last=MOST,
        unsafe=MOST,
        placed=(
            (limits.DAEMONS_MAX - 1, MOST - limits.OUTSTANDING_MAX + 1, MOST, MOST),
            (0, 1, limits.OUTSTANDING_MAX, 1),
        ),
    )
    assert parse_adaptive_state(encode_state(state)) == state


@pytest.mark.parametrize(
    "body",
    [b"", b"\xc0", b"\xc1", b"\x90", encode_state(state_of())[:-1], encode_state(state_of()) + b"\x00"],
)
def test_what_is_no_state_is_refused(body: bytes) -> None:
    with pytest.raises(BadFrame, match=r"state: (Decode|Validation)Error$"):
        parse_adaptive_state(body)


@pytest.mark.parametrize("at", range(8))
@pytest.mark.parametrize("value", [None, "x", 1.5, {}, [["x"]], [[1, 2, 3, 4, 5]]])
def test_a_field_of_another_type_is_refused(at: int, value: object) -> None:
    fields = list(msgspec.to_builtins(state_of()))
    fields[at] = value
    with pytest.raises(BadFrame, match=r"state: ValidationError$"):
        parse_adaptive_state(msgspec.msgpack.encode(fields))


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (state_of(clock=MOST + 1), "counter"),
        (state_of(delivered=MOST + 1), "counter"),
        (state_of(stable=MOST + 1), "counter"),
        (state_of(sources=(SourceState(2, 9, 70, 7, (), ()),)), "numbers"),
        (state_of(last=-1), "counter"),
        (state_of(last=MOST + 1), "counter"),
        (state_of(unsafe=-1), "counter"),
        (state_of(unsafe=MOST + 1), "counter"),
        (state_of(placed=((-1, 1, 1, 1),)), "numbers"),
        (state_of(placed=((limits.DAEMONS_MAX, 1, 1, 1),)), "numbers"),
        (state_of(placed=((0, 0, 1, 1),)), "numbers"),
        (state_of(placed=((0, 3, 2, 1),)), "numbers"),
        (state_of(placed=((0, 1, 1 + limits.OUTSTANDING_MAX, 1),)), "numbers"),
        (state_of(placed=((0, MOST, MOST + 1, 1),)), "counter"),
        (state_of(placed=((0, 1, 1, 0),)), "counter"),
        (state_of(placed=((0, 1, 1, -1),)), "counter"),
        (state_of(placed=((0, 1, 1, MOST + 1),)), "counter"),
        (state_of(placed=((0, 1, 1, 1), (0, 2, 2, 0))), "counter"),  # not the first one, either
    ],
)
def test_a_state_in_which_no_daemon_can_be_is_refused(state: AdaptiveState, reason: str) -> None:
    with pytest.raises(BadFrame, match=f"state: impossible {reason}$"):
        parse_adaptive_state(encode_state(state))


def test_what_is_told_has_a_bound() -> None:
    most = limits.PLACED_RUNS_MAX
    placed = tuple((0, number, number, 1) for number in range(1, most + 2))
    behind = tuple((0, number) for number in range(1, most + 2))
    parse_adaptive_state(encode_state(state_of(placed=placed[:most], behind=behind[:most])))
    for state in (state_of(placed=placed), state_of(behind=behind)):
        with pytest.raises(BadFrame, match="state: too many places"):
            parse_adaptive_state(encode_state(state))


# What they agree on ---------------------------------------------------------------------------------------


def ending_of(*states: AdaptiveState, start: int = START) -> AdaptiveEnding:
    """What daemon 0 finds if daemons 0, 1, ... have told these states and go on together."""
    return AdaptiveEnding(0, SEGMENTS, dict(enumerate(states)), start)


def test_places_that_any_member_knows_to_be_certain_are_known_to_all() -> None:
    ending = ending_of(
        state_of(placed=((2, 5, 6, place(0)),)),
        state_of(placed=((2, 6, 7, place(1)), (3, 1, 1, place(9)))),
        state_of(),
    )
    assert [ending.places.place_of(2, number) for number in (4, 5, 6, 7, 8)] == [
        None, place(0), place(1), place(2), None,
    ]  # fmt: skip
    assert ending.places.place_of(3, 1) == place(9)


def test_the_stable_line_is_the_highest_that_a_member_knows_if_nothing_is_unsafe() -> None:
    ending = ending_of(state_of(stable=70 * ROUND), state_of(stable=80 * ROUND))
    assert ending.stable_line == 80 * ROUND


def test_the_stable_line_is_below_the_first_safe_bundle_whose_confirmation_is_not_everywhere() -> None:
    """It is delivered after the signal: those on the other side of a cut may have dropped it."""
    states = [state_of(unsafe=76 * ROUND), state_of(unsafe=75 * ROUND), state_of(stable=80 * ROUND)]
    assert ending_of(*states).stable_line == 75 * ROUND - 1
    assert ending_of(state_of(unsafe=81 * ROUND)).stable_line == 80 * ROUND


def test_a_safe_bundle_that_is_not_certain_ends_what_a_group_gets_before_the_signal() -> None:
    ending = ending_of(state_of(delivered=60 * ROUND, unsafe=75 * ROUND))
    assert ending.line_of([]) == ending.line_of([0]) == 75 * ROUND - 1


def retaining(*numbers: int) -> tuple[SourceState, ...]:
    """What a daemon knows that retains bundles of source 2."""
    ranges = tuple((number, number) for number in numbers)
    return (SourceState(2, 9, 70 * ROUND, 9, (), ranges),)


def test_a_bundle_is_delivered_if_somebody_who_retains_it_has_delivered_what_has_its_place() -> None:
    ending = ending_of(
        state_of(sources=retaining(5), delivered=60 * ROUND),
        state_of(sources=retaining(5, 6), delivered=90 * ROUND),
        state_of(sources=retaining(7), delivered=60 * ROUND),
    )
    assert ending.is_delivered(2, 5, 90 * ROUND) and ending.is_delivered(2, 6, 61 * ROUND)
    assert not ending.is_delivered(2, 5, 90 * ROUND + 1)
    assert not ending.is_delivered(2, 7, 61 * ROUND)  # only one who has not delivered that far retains it


def test_a_bundle_is_not_delivered_by_a_member_that_says_it_is_behind_with_it() -> None:
    """It came to that member late, when what has a later place was delivered."""
    states = [
        state_of(sources=retaining(5, 6), delivered=90 * ROUND, behind=((2, 5),)),
        state_of(sources=retaining(5, 6), delivered=60 * ROUND),
    ]
    ending = ending_of(*states)
    assert not ending.is_delivered(2, 5, 70 * ROUND)
    assert ending.is_delivered(2, 5, 60 * ROUND)  # by the other one, which is not behind
    assert ending.is_delivered(2, 6, 70 * ROUND)


def test_that_one_member_is_behind_says_nothing_of_the_others() -> None:
    ending = ending_of(
        state_of(sources=retaining(5), delivered=90 * ROUND, behind=((2, 5), (0, 5))),
        state_of(sources=retaining(5), delivered=90 * ROUND),
    )
    assert ending.is_delivered(2, 5, 70 * ROUND)


def test_a_causal_bundle_that_was_delivered_ahead_of_its_place_is_delivered_whoever_is_behind() -> None:
    overtook = (SourceState(2, 9, 70 * ROUND, 9, (), ((5, 5),), ((5, 5),)),)
    ending = ending_of(state_of(sources=overtook, delivered=60 * ROUND, behind=((2, 4),)))
    assert ending.is_delivered(2, 5, 70 * ROUND)


# Places for the rest --------------------------------------------------------------------------------------

NAMING = (Extension(SEQUENCER, bytes(6)),)
LOST, KEPT = 2, 3
"""Two daemons of source 2; the promise is given for the second one."""
LAST = 150 * ROUND
FAR = LAST - START + limits.PLACES_SPARE
"""What has no place is put so much later than its birth."""


def bundle(
    number: int,
    lts: int,
    *,
    daemon: int = LOST,
    source: int = 2,
    session: int = 4,
    service: Service = Service.AGREED,
    fields: tuple[Extension, ...] = NAMING,
) -> Entry:
    header = Header(
        0, service, 0, b"", 1, 0, daemon, session, 7, number, number, 0, lts, 0, 7, 0, extensions=fields
    )
    return Entry(source, header, b"")


def give(*rest: Entry, placed: tuple[PlacedRun, ...] = (), delivered: int = 90 * ROUND) -> list[int]:
    """Give places to bundles; the numbers in the order in which they are delivered."""
    ending = ending_of(state_of(placed=placed, delivered=delivered, last=LAST), state_of(last=LAST - ROUND))
    given = give_places(list(rest), ending, {KEPT})
    assert {id(entry) for entry in given} == {id(entry) for entry in rest} and len(given) == len(rest)
    return [entry.header.number for entry in given]


@pytest.mark.parametrize("service", [Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE])
def test_what_was_born_with_its_place_has_that_one(service: Service) -> None:
    for daemon in (LOST, KEPT):
        entry = bundle(5, 50 * ROUND, daemon=daemon, service=service, fields=())
        give(entry, placed=((2, 5, 5, place(0)),))
        assert entry.place == 50 * ROUND


@pytest.mark.parametrize("service", [Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE])
@pytest.mark.parametrize("daemon", [LOST, KEPT])
def test_what_has_a_certain_place_has_that_one(service: Service, daemon: int) -> None:
    entries = [bundle(number, 50 * ROUND, daemon=daemon, service=service) for number in (5, 6)]
    give(*entries, placed=((2, 4, 6, place(0)),))
    assert [entry.place for entry in entries] == [place(1), place(2)]


@pytest.mark.parametrize("service", [Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE])
def test_what_a_daemon_sent_of_which_nothing_is_dropped_comes_after_everything(service: Service) -> None:
    entries = [
        bundle(7, 52 * ROUND, daemon=KEPT, service=service),
        bundle(6, 51 * ROUND, daemon=KEPT, service=service, session=5),
        bundle(5, 149 * ROUND, source=1, daemon=KEPT, service=service, session=6),
        bundle(8, 53 * ROUND),
        bundle(1, LAST, source=0, daemon=0, fields=()),
    ]
    assert give(*entries, placed=((2, 8, 8, place(48)),)) == [8, 1, 6, 7, 5]
    assert [entry.place for entry in entries[:3]] == [
        52 * ROUND + FAR, 51 * ROUND + FAR, 149 * ROUND + FAR,
    ]  # fmt: skip
    assert min(entry.place for entry in entries[:3]) > LAST + limits.PLACES_SPARE


@pytest.mark.parametrize("service", [Service.CAUSAL, Service.AGREED, Service.SAFE])
def test_what_a_lost_daemon_ordered_is_put_far_beyond_where_it_is_dropped(service: Service) -> None:
    entry = bundle(5, 50 * ROUND, service=service)
    give(entry)
    assert entry.place == 50 * ROUND + FAR


@pytest.mark.parametrize("service", [Service.RELIABLE, Service.FIFO])
def test_what_a_lost_daemon_did_not_order_comes_as_early_as_it_may(service: Service) -> None:
    late, early = bundle(5, 95 * ROUND, service=service), bundle(6, 60 * ROUND, service=service, session=5)
    give(late, early, delivered=90 * ROUND)
    assert late.place == 95 * ROUND  # not before it was born
    assert early.place == 90 * ROUND  # not before what was delivered


def test_it_comes_after_what_its_session_sent_before() -> None:
    ordered = bundle(5, 50 * ROUND)
    next_one = bundle(6, 51 * ROUND, service=Service.FIFO)
    third = bundle(7, 52 * ROUND, service=Service.FIFO)
    others = bundle(8, 53 * ROUND, service=Service.FIFO, session=5)
    twin = bundle(9, 54 * ROUND, service=Service.FIFO, daemon=1)
    order = give(third, next_one, ordered, others, twin, placed=((2, 5, 5, place(0)),))
    assert ordered.place == next_one.place == third.place == place(0) > 90 * ROUND
    assert others.place == twin.place == 90 * ROUND  # other sessions do not wait for that one
    assert order == [8, 9, 5, 6, 7]


def test_it_does_not_wait_for_what_is_dropped() -> None:
    dropped = bundle(5, 95 * ROUND)
    after = bundle(6, 96 * ROUND, service=Service.FIFO)
    assert give(dropped, after) == [6, 5]
    assert after.place == 96 * ROUND


def test_the_session_of_a_kept_daemon_stays_in_its_order() -> None:
    entries = [
        bundle(5, 50 * ROUND, daemon=KEPT),
        bundle(6, 51 * ROUND, daemon=KEPT, service=Service.FIFO),
        bundle(7, 52 * ROUND, daemon=KEPT),
        bundle(8, 53 * ROUND, daemon=KEPT, service=Service.RELIABLE),
    ]
    assert give(*reversed(entries), placed=((2, 5, 5, place(0)),)) == [5, 6, 7, 8]
    assert [entry.place for entry in entries] == [
        place(0), 51 * ROUND + FAR, 52 * ROUND + FAR, 53 * ROUND + FAR,
    ]  # fmt: skip


def test_bundles_with_one_place_come_by_source_and_number() -> None:
    entries = [
        bundle(number, number * ROUND, source=source, daemon=LOST, session=source, service=Service.FIFO)
        for source, number in ((2, 5), (1, 7), (1, 6))
    ]
    assert give(*entries) == [6, 7, 5]
    assert {entry.place for entry in entries} == {90 * ROUND}


# A view that is left at the second attempt ----------------------------------------------------------------


def sent_by_two(number: int, lts: int) -> Entry:
    named = (Extension(SEQUENCER, bytes(6)),)
    header = Header(
        0, Service.AGREED, 0, b"", 1, 0, 2, 4, 7, number, number, 0, lts, 0, 7, 0, extensions=named
    )
    return Entry(2, header, b"x")


def test_what_a_promised_daemon_sent_after_we_stopped_has_its_place_in_this_view() -> None:
    """Daemon 2 stops later than daemon 0. A first attempt promises that nothing of it is dropped, and its
    bundle comes; then it is lost, and daemon 0 leaves the view without it."""
    order = AdaptiveOrder(3, 0, start=4 * ROUND)
    order.stop()
    later = AdaptiveOrder(3, 2, start=4 * ROUND)
    later.witness(104 * ROUND | 2)
    later.stop()
    entry = sent_by_two(1, 104 * ROUND | 2)
    order.ending({0: order.tell(), 2: later.tell()})
    assert order.recover(entry)
    ending = order.ending({0: order.tell()})
    assert order.undelivered({0, 2}) == [entry]
    assert entry.place <= ending.last_line
