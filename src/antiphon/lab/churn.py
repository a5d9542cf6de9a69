"""Churn: how long messages stand still when a daemon returns, and when thousands of members depart at once.

Two daemons. Beside what happens, one session sends agreed messages to a group of its own at a steady rate;
its longest silence is what every program of the cluster would notice. Nothing happens to daemons but the
return, so the only daemon view that may be installed is the one with the daemon that returns.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence

import antiphon.blocking
from antiphon import View
from antiphon.errors import AntiphonError
from antiphon.lab.experiment import Experiment, Row, parts_of
from antiphon.load.cluster import DaemonProcesses, mortal_daemons
from antiphon.load.crowds import CrowdProcess, PingerProcess, crowd, pinger
from antiphon.plots.charts import Line, LineChart
from antiphon.plots.page import Block, Figure, Paragraph, Section, Table
from antiphon.plots.words import count, duration

GROUPS_EACH = 1_000
"""Groups that one idle session joins; the most that it may."""
PINGED = "pinged"
CROWDED = "crowded"
DONE_WITHIN_S = 300.0
QUIET_S = 3.0
"""Messages are watched for so long after all is done, too."""
COUNTS = {
    "return": (2_500, 5_000, 10_000, 20_000, 50_000),
    "merge": (2_500, 5_000, 10_000, 20_000),
    "departure": (1_000, 2_500, 5_000, 9_000),
}
"""The last but for a few that a daemon lets in."""
QUICK_COUNTS = {"return": (100,), "merge": (100,), "departure": (50,)}
WORDS = {
    "return": "A daemon is restarted while the other one has so many groups",
    "merge": "A daemon is paused until it is lost, and returns; both have members of so many groups",
    "departure": "So many members of one group, at one daemon, hang up at once",
}
SILENCE_MAX_S = 2.0
"""A longer silence is a fault."""


def steps(quick: bool) -> int:
    """How many measurements there are."""
    return sum(map(len, (QUICK_COUNTS if quick else COUNTS).values()))


def measure(quick: bool) -> Iterator[Row]:
    """All parts, smallest counts first."""
    counts = QUICK_COUNTS if quick else COUNTS
    yield from returns(counts["return"])
    yield from merges(counts["merge"])
    for number in counts["departure"]:
        yield departure(number)


def returns(counts: Sequence[int]) -> Iterator[Row]:
    """Restart a daemon while the other one has more and more groups."""
    with (
        mortal_daemons(2) as daemons,
        crowd(daemons.addresses[0]) as idle,
        pinger(daemons.addresses[0], PINGED) as pings,
    ):
        made = 0
        for number in counts:
            _grow(idle, made, number)
            made = number
            _lose(daemons, daemons.kill)
            yield _return("return", number, daemons, pings, daemons.restart)


def merges(counts: Sequence[int]) -> Iterator[Row]:
    """Pause a daemon for so long that it is lost, while both have members of more and more groups."""
    with (
        mortal_daemons(2) as daemons,
        crowd(daemons.addresses[0]) as idle,
        crowd(daemons.addresses[1]) as others,
        pinger(daemons.addresses[0], PINGED) as pings,
    ):
        made = 0
        for number in counts:
            _grow(idle, made, number)
            _grow(others, made, number)
            made = number
            _lose(daemons, daemons.pause)
            yield _return("merge", number, daemons, pings, daemons.resume)


def _grow(idle: CrowdProcess, made: int, number: int) -> None:
    """Join more groups; the members are told of every view, as most programs are."""
    while made < number:
        some = min(GROUPS_EACH, number - made)
        idle.grow(1, *(f"g{made + place}" for place in range(some)), views=True)
        made += some


def _lose(daemons: DaemonProcesses, take_away: Callable[[int], None]) -> None:
    """Take the second daemon away, until the first one is in a view without it."""
    before = daemons.views_told(0)
    take_away(1)
    deadline_s = time.monotonic() + DONE_WITHIN_S
    while daemons.views_told(0) == before:
        if time.monotonic() > deadline_s:
            raise AntiphonError(f"the daemon was not lost within {DONE_WITHIN_S:.0f} s")
        time.sleep(0.02)


def _return(
    part: str, groups: int, daemons: DaemonProcesses, pings: PingerProcess, bring_back: Callable[[int], None]
) -> Row:
    time.sleep(QUIET_S)
    pings.take()
    before = daemons.views_told(0)
    begun_s = time.monotonic()
    bring_back(1)
    silence_s = 0.0
    with antiphon.blocking.connect(daemons.addresses[1], views=False, timeout_s=DONE_WITHIN_S) as returned:
        others = 0
        deadline_s = time.monotonic() + DONE_WITHIN_S
        while not others:  # what it sends before its daemon has merged with the other one reaches no member
            returned.send(PINGED, b"returned")
            time.sleep(0.05)
            seen = pings.take()
            silence_s, others = max(silence_s, seen.longest_s), seen.others
            if time.monotonic() > deadline_s:
                raise AntiphonError(f"the daemon did not return within {DONE_WITHIN_S:.0f} s")
        took_s = time.monotonic() - begun_s
        time.sleep(QUIET_S)
    return _row(part, groups, daemons, before, took_s, max(silence_s, pings.take().longest_s))


def departure(members: int) -> Row:
    """All but one of the members of a group depart at once."""
    with (
        mortal_daemons(2) as daemons,
        crowd(daemons.addresses[0]) as crowded,
        pinger(daemons.addresses[1], PINGED) as pings,
    ):
        crowded.grow(members, CROWDED)
        with antiphon.blocking.connect(daemons.addresses[1], timeout_s=DONE_WITHIN_S) as witness:
            witness.join(CROWDED)
            _wait_for_members(witness, members + 1)
            pings.take()
            before = daemons.views_told(0)
            took_s = _hang_up(crowded, witness)
            time.sleep(QUIET_S)
        return _row("departure", members, daemons, before, took_s, pings.take().longest_s)


def _hang_up(crowded: CrowdProcess, witness: antiphon.blocking.Session) -> float:
    """Let a crowd depart; how long it took until the one who stays was alone."""
    begun_s = time.monotonic()
    leaving = threading.Thread(target=crowded.hang_up)  # the kernel takes its time
    leaving.start()
    _wait_for_members(witness, 1)
    leaving.join()
    return time.monotonic() - begun_s


def _wait_for_members(session: antiphon.blocking.Session, wanted: int) -> None:
    members = 0
    while members != wanted:
        event = session.receive(DONE_WITHIN_S)
        if isinstance(event, View):
            members = len(event.members)


def _row(
    part: str, number: int, daemons: DaemonProcesses, before: int, took_s: float, silence_s: float
) -> Row:
    return {
        "part": part,
        "count": number,
        "silence_s": round(silence_s, 3),
        "took_s": round(took_s, 3),
        "views": daemons.views_told(0) - before,
    }


def faults(rows: Sequence[Row]) -> list[str]:
    """Silences that are too long, and daemons that were lost because they were busy."""
    found = []
    for row in rows:
        case = f"{row['part']} with {row['count']:,}"
        if row["silence_s"] > SILENCE_MAX_S:
            found.append(f"{case}: {row['silence_s']} s of silence")
        if row["views"] > (row["part"] != "departure"):
            found.append(f"{case}: {row['views']} daemon views")
    return found


# The page -------------------------------------------------------------------------------------------------


def sections(rows: Sequence[Row]) -> list[Section]:
    """A section for each part."""
    return [Section(part, part.capitalize(), _section(part, some)) for part, some in parts_of(rows).items()]


def _section(part: str, rows: list[Row]) -> list[Block]:
    what = "members" if part == "departure" else "groups"
    lines = [
        Line(word, tuple((row["count"], row[key] * 1e6) for row in rows))
        for word, key in (("longest silence", "silence_s"), ("until all was done", "took_s"))
    ]
    chart = LineChart(
        f"Silence with the number of {what}", lines, (what, "time"), (count, duration), by_factors=True
    )
    table = Table(
        "In numbers",
        (what, "longest silence", "until it was over", "daemon views"),
        [
            (
                f"{row['count']:,}",
                *(duration(row[key] * 1e6) for key in ("silence_s", "took_s")),
                str(row["views"]),
            )
            for row in rows
        ],
        numbers_from=0,
    )
    return [
        Paragraph(WORDS[part] + "."),
        Figure("Seen by an agreed pinger; counts by factors", chart),
        table,
    ]


EXPERIMENT = Experiment(
    name="churn",
    about="silence when a daemon returns to many groups, and when many members depart at once",
    steps=steps,
    measure=measure,
    title="Churn",
    intro=(
        "Two real daemons and clients in processes of their own on one machine. One session sends agreed "
        "messages to a group of its own every 10 ms; the longest time between two deliveries is the silence."
    ),
    sections=sections,
    faults=faults,
)
