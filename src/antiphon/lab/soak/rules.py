"""The rules of a soak: each looks at what was seen, and says in words what is wrong, or nothing."""

from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from antiphon.lab.soak.looks import Look
from antiphon.lab.soak.plan import ACTS
from antiphon.lab.soak.talk import Tally
from antiphon.plots.words import size

GROWTH_RATIO = 1.25
GROWTH_BYTES = 16_000_000
"""Memory counts as flat if the median of the last act is not above that of the act before, times the one and
plus the other. Both are more than what the allocator and a different order of events make of one load."""
WARM, MIDDLE, LAST = range(1, ACTS + 1)


class Verdict(Struct, frozen=True):
    """What one rule says."""

    rule: str
    promise: str
    faults: tuple[str, ...] = ()
    """Empty if it is kept."""


class Growth(Struct, frozen=True):
    """The memory and the descriptors of one process, after the warm-up and at the end."""

    process: str
    middle_bytes: int
    """Median of the second act."""
    last_bytes: int
    """Median of the last act."""
    rest_bytes: tuple[int, ...]
    """The bytes at rest after each act."""
    rest_descriptors: tuple[int, ...]
    """The descriptors at rest after each act."""

    @property
    def most_bytes(self) -> int:
        """The most that `last_bytes` may be."""
        return round(GROWTH_RATIO * self.middle_bytes) + GROWTH_BYTES


def growths(looks: Sequence[Look]) -> list[Growth]:
    """The growth of every process that was seen in the second act and in the last, and at rest after every
    act."""
    rests = [look for look in looks if look.at_rest]
    found = []
    for name in looks[-1].memory_bytes:
        acts = {
            act: [look.memory_bytes[name] for look in looks if look.act == act and name in look.memory_bytes]
            for act in (MIDDLE, LAST)
        }
        found.append(
            Growth(
                name,
                round(median(acts[MIDDLE])),
                round(median(acts[LAST])),
                tuple(rest.memory_bytes[name] for rest in rests),
                tuple(rest.descriptors[name] for rest in rests),
            )
        )
    return found


def memory(found: Sequence[Growth]) -> Verdict:
    """Flat after the warm-up."""
    faults = tuple(
        f"{growth.process} grew from {size(growth.middle_bytes)} to {size(growth.last_bytes)}; "
        f"at most {size(growth.most_bytes)} is flat"
        for growth in found
        if growth.last_bytes > growth.most_bytes
    )
    promise = (
        f"the median of the last act is at most {GROWTH_RATIO:g} times that of the second, "
        f"and {size(GROWTH_BYTES)} more"
    )
    return Verdict("memory", promise, faults)


def descriptors(found: Sequence[Growth]) -> Verdict:
    """None is lost: at rest there are no more than after the warm-up."""
    faults = tuple(
        f"{growth.process} has {growth.rest_descriptors[-1]} descriptors, "
        f"after the warm-up it had {growth.rest_descriptors[0]}"
        for growth in found
        if growth.rest_descriptors[-1] > growth.rest_descriptors[0]
    )
    return Verdict("descriptors", "at the end there are no more than at rest after the warm-up", faults)


def emptiness(looks: Sequence[Look]) -> Verdict:
    """Nothing stays behind when all clients have gone."""
    faults = tuple(f"after act {look.act}: {words}" for look in looks for words in look.left_over)
    return Verdict("at rest", "no groups, no sessions, empty queues after each act", faults)


def bounds(looks: Sequence[Look]) -> Verdict:
    """No queue was ever seen beyond its limit."""
    faults = tuple(f"at {look.second:.0f} s {words}" for look in looks for words in look.overfull)
    return Verdict("bounds", "no buffer of `antiphon status` above its limit", faults)


def health(complaints: Sequence[str]) -> Verdict:
    """The daemons themselves are well."""
    return Verdict("daemons", "none ends by itself, no log has a traceback", tuple(complaints))


def trials(tally: Tally, cut_off: int) -> Verdict:
    """What was to be tried did happen: else the other rules would say less than they seem to."""
    happened = {
        "no message was delivered": tally.received,
        "no slow receiver was warned": tally.warned,
        "no slow receiver was cut off": cut_off,
        "no session came back": tally.returned,
    }
    faults = tuple(words for words, count in happened.items() if not count)
    return Verdict("trials", "slow receivers were warned and cut off, sessions came back", faults)


def properties(violations: Sequence[str], records: int) -> Verdict:
    """Extended Virtual Synchrony."""
    return Verdict("oracle", f"every property holds in all {records:,} records", tuple(violations))
