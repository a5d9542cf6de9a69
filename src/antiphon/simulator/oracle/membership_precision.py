"""2.16: once the network is stable, each connected set of daemons becomes one view, soon and for good.

`restored` says from when on, which sets these are, and how long it may take.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import History, history
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, Record, Trace, promises


def restored(trace: Trace) -> Record | None:
    """The last word on which daemons are together, if there is one."""
    return next(reversed(trace.of(Event.RESTORED)), None)


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    peace = trace.known(restored)
    if peace is None:
        return
    told = trace.known(history)
    alive = {daemon for daemon, life in told.last_lives().items() if life.crash is None}
    expected = {daemon for part in peace.parts for daemon in part}
    if alive != expected:
        yield Finding(
            "the daemons that live are not those that were expected to", tuple(sorted(alive ^ expected)),
            positions=(peace.position,),
        )  # fmt: skip
    for part in peace.parts:
        yield from _judge_part(told, peace, [daemon for daemon in part if daemon in alive])


def _judge_part(told: History, peace: Record, part: list[str]) -> Iterator[Finding]:
    lives = told.last_lives()
    views = set()
    for daemon in part:
        if not lives[daemon].terms:
            yield Finding("it never installed a view", (daemon,), positions=(peace.position,))
            continue
        last = lives[daemon].terms[-1]
        views.add(last.view)
        if set(last.start.members) != set(part):
            yield Finding(
                f"its last view is not the set of those whom it can reach: {', '.join(last.start.members)}",
                (daemon, *sorted(set(last.start.members) ^ set(part))),
                positions=(last.start.position,),
            )
        if last.start.time_us > peace.time_us + peace.bound_us:
            late_us = last.start.time_us - peace.time_us
            yield at(
                last.start, f"installed {late_us} us after the faults ended; {peace.bound_us} are allowed"
            )
    if len(views) > 1:
        yield Finding(
            f"these can reach one another and ended in {len(views)} views", tuple(part),
            positions=(peace.position,),
        )  # fmt: skip


PROPERTIES = (Property(promises.MEMBERSHIP_PRECISION_OF_DAEMONS, _look_at_daemons),)
