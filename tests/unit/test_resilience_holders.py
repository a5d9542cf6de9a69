"""Who counts towards the resilience of a bundle, what stands in its header, and what a user may ask for."""

import pytest

from antiphon import limits
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.resilience import Resilience
from antiphon.core.ordering.stability import Lines
from antiphon.errors import BadFrame, UsageError
from antiphon.service import Service
from antiphon.types import check_resilience
from antiphon.wire import bundle, extensions
from antiphon.wire.extensions import Extension
from antiphon.wire.resilience import MAJORITY, TOTAL, asked_of, code_of, extension

AGREED = Service.AGREED
SEGMENTS = ((0, 1, 2), (3, 4), (5,), (6,))
SITES = (0, 1, 1, 2)
"""The second site is torn: daemon 5 does not reach 3 and 4 directly."""
EVERYWHERE = 0b111
BORN = 5_000


def entry_of(code: int, daemon: int = 0, destinations: int = EVERYWHERE) -> Entry:
    source = next(segment[0] for segment in SEGMENTS if daemon in segment)
    header = bundle.Header(
        0, AGREED, 0, b"", 1, 0, daemon, 1, 1, 1, 1, 0, BORN, 0, destinations, 0, 0,
        (Extension(extensions.RESILIENCE, code.to_bytes(2)),),
    )  # fmt: skip
    return Entry(source, header, b"", BORN)


def lines_of(me: int, **arus: int) -> Lines:
    """`s0`, `s3` and so on are the arus that sources have announced."""
    own = next(segment for segment in SEGMENTS if me in segment)
    lines = Lines(7, me, [segment[0] for segment in SEGMENTS], 0, 0, own[0], len(own) == 1)
    for source, aru in arus.items():
        lines.claim(int(source[1:]), 0, aru)
    return lines


def reached(me: int, entry: Entry, lines: Lines, lts: int = BORN) -> bool:
    resilience = Resilience(me, SEGMENTS, SITES)
    resilience.came(entry)
    return resilience.is_reached(entry, lts, lines)


def most(me: int, entry_daemon: int, lines: Lines, destinations: int = EVERYWHERE, lts: int = BORN) -> int:
    """The greatest K that is reached."""
    found = [k for k in range(1, 8) if reached(me, entry_of(k, entry_daemon, destinations), lines, lts)]
    assert found == list(range(1, len(found) + 1))
    return len(found)


def test_the_daemon_that_sent_it_counts_as_one() -> None:
    assert most(0, 0, lines_of(0)) == 1
    assert most(6, 6, lines_of(6)) == 1


def test_another_daemon_counts_the_sender_and_itself() -> None:
    assert most(1, 0, lines_of(1)) == most(3, 0, lines_of(3)) == most(6, 0, lines_of(6)) == 2


def test_a_source_counts_once_its_aru_has_passed_it() -> None:
    assert most(0, 0, lines_of(0, s0=BORN - 1)) == 1
    assert most(0, 0, lines_of(0, s0=BORN)) == 3
    assert most(0, 0, lines_of(0, s3=BORN)) == 3
    assert most(3, 0, lines_of(3, s3=BORN)) == 3
    assert most(3, 0, lines_of(3, s0=BORN)) == 4
    assert most(4, 3, lines_of(4, s0=BORN, s3=BORN, s5=BORN)) == 6
    assert most(4, 3, lines_of(4, s0=BORN, s3=BORN, s5=BORN, s6=BORN)) == 7


def test_an_lts_is_no_aru() -> None:
    """A source that sends nothing up to a place has not said that it has received anything."""
    lines = lines_of(0)
    for source in (0, 3, 5, 6):
        lines.claim(source, BORN + 1_000, 0)
    assert most(0, 0, lines) == 1


def test_no_source_counts_without_a_confirmation() -> None:
    """0 stands for the confirmation of a ticket that has not come."""
    everybody = lines_of(1, s0=BORN, s3=BORN, s5=BORN, s6=BORN)
    assert most(1, 0, everybody, lts=0) == 2


def test_sites_that_do_not_get_it_do_not_count() -> None:
    """Their arus pass it because it was skipped there. All daemons of the others are enough."""
    others = lines_of(0, s3=BORN, s5=BORN, s6=BORN)
    assert [reached(0, entry_of(k, 0, 0b001), others) for k in (1, 2)] == [True, False]
    assert reached(0, entry_of(TOTAL, 0, 0b001), lines_of(0, s0=BORN))
    assert reached(0, entry_of(7, 0, 0b001), lines_of(0, s0=BORN))
    assert not reached(0, entry_of(7, 0, 0b011), lines_of(0, s0=BORN, s3=BORN))
    assert reached(0, entry_of(7, 0, 0b011), lines_of(0, s0=BORN, s3=BORN, s5=BORN))


def test_a_daemon_that_got_it_late_counts_itself() -> None:
    """Its site was no destination when the bundle was sent."""
    assert reached(6, entry_of(2, 0, 0b001), lines_of(6))
    assert not reached(6, entry_of(3, 0, 0b001), lines_of(6, s6=BORN))


def test_what_the_words_mean() -> None:
    resilience = Resilience(0, SEGMENTS, SITES)
    assert resilience.needed(TOTAL, EVERYWHERE) == 7
    assert resilience.needed(MAJORITY, EVERYWHERE) == 4
    assert resilience.needed(MAJORITY, 0b001) == 3
    assert resilience.needed(limits.DAEMONS_MAX, EVERYWHERE) == 7
    assert [Resilience(0, ((0,), *(((n,)) for n in range(1, size))), range(size)).needed(MAJORITY, -1)
            for size in (1, 2, 3, 4, 5)] == [1, 2, 2, 3, 3]  # fmt: skip


def test_what_one_daemon_is_enough_for_is_not_resilient() -> None:
    resilience = Resilience(0, SEGMENTS, SITES)
    assert not resilience.came(entry_of(1))
    assert not resilience.came(entry_of(0))
    assert not resilience.waiting and resilience.is_reached(entry_of(1), BORN, lines_of(0))


@pytest.mark.parametrize(
    ("code", "daemon", "destinations", "expected"),
    [
        (2, 0, EVERYWHERE, False),
        (3, 0, 0b001, False),
        (3, 0, EVERYWHERE, True),  # daemons 5 and 6 have nobody but the sender and themselves
        (4, 0, 0b001, False),  # three are all that get it
        (2, 6, EVERYWHERE, True),  # the sender is alone in its site
        (3, 3, 0b010, True),
    ],
)
def test_whether_arus_of_other_sources_are_waited_for(
    code: int, daemon: int, destinations: int, expected: bool
) -> None:
    assert Resilience(1, SEGMENTS, SITES).came(entry_of(code, daemon, destinations)) is expected


def test_a_bundle_waits_until_it_is_delivered() -> None:
    resilience, entry = Resilience(0, SEGMENTS, SITES), entry_of(3)
    resilience.came(entry)
    assert resilience.is_urgent(entry)
    assert not resilience.is_reached(entry, BORN, lines_of(0)) and resilience.is_urgent(entry)
    assert resilience.is_reached(entry, BORN, lines_of(0, s0=BORN)) and not resilience.is_urgent(entry)


# Witnesses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("daemon", "destinations", "witness"),
    [(0, EVERYWHERE, 1), (1, EVERYWHERE, 0), (4, EVERYWHERE, 3), (5, EVERYWHERE, 6), (6, EVERYWHERE, 0),
     (6, 0b110, 3), (6, 0b100, None), (5, 0b010, 3)],
)  # fmt: skip
def test_the_witness_of_a_sender_is_near_it(daemon: int, destinations: int, witness: int | None) -> None:
    """In its own site, or else in the next one that gets the bundle."""
    assert Resilience(2, SEGMENTS, SITES).witness(entry_of(2, daemon, destinations)) == witness


def test_a_witness_tells_what_it_has_delivered_once() -> None:
    resilience = Resilience(1, SEGMENTS, SITES)
    resilience.reached_early(entry_of(2, 0))
    assert (resilience.take_to_tell(), resilience.to_tell) == (BORN, 0)


@pytest.mark.parametrize(("me", "code"), [(2, 2), (3, 2), (0, 2), (1, 3), (1, TOTAL)])
def test_nobody_else_tells_anything_and_only_where_two_are_enough(me: int, code: int) -> None:
    resilience = Resilience(me, SEGMENTS, SITES)
    resilience.reached_early(entry_of(code, 0))
    assert not resilience.to_tell


@pytest.mark.parametrize(("place", "is_reached"), [(BORN - 1, False), (BORN, True), (BORN + 9, True)])
def test_a_witness_counts_when_it_has_delivered_the_bundle(place: int, is_reached: bool) -> None:
    resilience, entry = Resilience(0, SEGMENTS, SITES), entry_of(2)
    resilience.came(entry)
    resilience.has_delivered(1, place)
    resilience.has_delivered(1, 7)
    assert resilience.is_reached(entry, BORN, lines_of(0)) is is_reached


@pytest.mark.parametrize(
    ("me", "told", "arus", "expected"),
    [
        (0, (0,), {}, 1),  # the sender itself
        (3, (3,), {}, 2),  # this daemon
        (0, (1, 2), {}, 3),
        (0, (1, 2), {"s0": BORN}, 3),  # its source counts already
        (0, (1, 4), {"s0": BORN}, 4),
    ],
)
def test_nobody_counts_twice(me: int, told: tuple[int, ...], arus: dict[str, int], expected: int) -> None:
    found = []
    for code in range(1, 8):
        resilience, entry = Resilience(me, SEGMENTS, SITES), entry_of(code)
        resilience.came(entry)
        for daemon in told:
            resilience.has_delivered(daemon, BORN)
        found.append(resilience.is_reached(entry, BORN, lines_of(me, **arus)))
    assert sum(found) == expected and all(found[:expected])


def test_a_witness_that_does_not_get_the_bundle_does_not_count() -> None:
    """It has delivered what is for it up to the place, and this is not."""
    resilience, entry = Resilience(0, SEGMENTS, SITES), entry_of(2, 0, 0b001)
    resilience.came(entry)
    resilience.has_delivered(6, BORN)
    assert not resilience.is_reached(entry, BORN, lines_of(0))


# On the wire ----------------------------------------------------------------------------------------------

NAMES = bundle.names_area("#a#d", ["g"])


def frame(*fields: Extension, service: Service = AGREED, flags: int = 0) -> bytes:
    return b"".join(bundle.encode(NAMES, 1, service, [b"HI"], flags=flags, extensions=fields))


@pytest.mark.parametrize(
    ("asked", "value"), [(1, "0001"), (3, "0003"), (512, "0200"), ("majority", "FFFE"), ("total", "FFFF")]
)
def test_it_stands_in_the_header(asked: int | str, value: str) -> None:
    field = extension(asked)  # type: ignore[arg-type]
    assert extensions.encode((field,)) == bytes.fromhex("0012 0002" + value)
    header = bundle.parse_from_client(frame(field))
    assert header == bundle.parse_from_daemon(frame(field))
    assert asked_of(header.extensions) == asked
    (message,) = bundle.decode(frame(field))
    assert message.resilience == message.envelope.resilience == asked


def test_most_bundles_have_none() -> None:
    header = bundle.parse(frame())
    assert code_of(header.extensions) == 0 and asked_of(header.extensions) is None
    (message,) = bundle.decode(frame())
    assert message.resilience is None


@pytest.mark.parametrize("value", ["", "02", "0000", "0201", "FFFD", "00000002"])
def test_a_value_that_nobody_may_ask_for_is_refused(value: str) -> None:
    data = frame(Extension(extensions.RESILIENCE, bytes.fromhex(value)))
    for parse in (bundle.parse_from_client, bundle.parse_from_daemon):
        with pytest.raises(BadFrame, match="bundle: impossible resilience"):
            parse(data)


@pytest.mark.parametrize("service", [service for service in Service if service is not AGREED])
def test_only_agreed_bundles_have_it(service: Service) -> None:
    for parse in (bundle.parse_from_client, bundle.parse_from_daemon):
        with pytest.raises(BadFrame, match="bundle: resilience without agreed delivery"):
            parse(frame(extension(2), service=service))


def test_bundles_of_daemons_do_not_have_it() -> None:
    with pytest.raises(BadFrame, match="bundle: resilience without agreed delivery"):
        bundle.parse_from_daemon(frame(extension(2), flags=bundle.Flag.EVENT))


# What a user may ask for ----------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", [None, 0, "0", False])
@pytest.mark.parametrize("service", Service)
def test_nothing_may_be_asked_for_with_any_service(nothing: object, service: Service) -> None:
    assert check_resilience(nothing, service) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [-1, 513, True, 2.5, "half", "", "2.0", "Majority", "٣", [2]])
def test_what_makes_no_sense_is_told_in_one_line(wrong: object) -> None:
    with pytest.raises(UsageError, match=r"^resilience must be majority, total or a whole number .*$"):
        check_resilience(wrong, AGREED)  # type: ignore[arg-type]


def test_it_goes_with_agreed_alone() -> None:
    with pytest.raises(UsageError, match="not with safe, which waits for all daemons anyway"):
        check_resilience(2, Service.SAFE)
    with pytest.raises(UsageError, match="resilience goes with the service agreed, not with fifo"):
        check_resilience("total", Service.FIFO)
