"""Traces that tell of what did not happen: one clean run, with a lie put into it."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from msgspec import structs

from antiphon.trace import ORDERED_SERVICES, Event, Identity, Record, Trace

Doctored = tuple[list[Record], str]
"""The records, and what a finding must name: a message, or a process, or a daemon."""


def as_live(trace: Trace, folder: Path) -> None:
    """Write a simulated run as if it had been real: a file for each process and each daemon, in which
    positions are places in that file. An edge tells of its sessions itself, and a daemon of those in whose
    names edges send."""
    files: dict[str, list[Record]] = {}
    sponsored = {record.process for record in trace.of(Event.CONNECT) if record.peer}
    for record in trace.records:
        if record.event is not Event.RESTORED:
            is_own = record.process and record.process not in sponsored and record.daemon not in trace.edges
            files.setdefault(record.process if is_own else record.daemon, []).append(record)
    for name, records in files.items():
        # They begin anywhere, so that nothing can be learnt from positions of different files.
        start = hash_of(name)
        own = [structs.replace(record, position=start + place) for place, record in enumerate(records)]
        Trace(
            trace.scenario,
            trace.seed,
            trace.daemons,
            own,
            run=trace.run,
            live=True,
            sites=trace.sites,
            edges=(name,) if name in trace.edges else (),
        ).write(folder / trace.run / name.strip("#").replace("#", "-"))


def hash_of(name: str) -> int:
    """A number that has nothing to do with time.

    >>> hash_of("d1") != hash_of("d2")
    True
    """
    return sum(byte * 7919 * (place + 1) for place, byte in enumerate(name.encode())) % 100_003


def text_of(message: Identity | None) -> str:
    assert message is not None
    return ".".join(map(str, message))


def only(records: list[Record], event: Event) -> list[Record]:
    return [record for record in records if record.event is event]


def ordered_deliveries(trace: Trace) -> dict[str, list[Record]]:
    """Of each process, the ordered messages that it delivered in a view."""
    found: dict[str, list[Record]] = {}
    for record in only(trace.records, Event.DELIVER):
        if record.service in ORDERED_SERVICES and record.views[0] is not None:
            found.setdefault(record.process, []).append(record)
    return found


def without(trace: Trace, lost: Record) -> list[Record]:
    return [record for record in trace.records if record is not lost]


def swapped(trace: Trace, one: Record, other: Record) -> list[Record]:
    """Two deliveries of one process change places."""
    records = list(trace.records)
    at = {id(record): place for place, record in enumerate(records)}
    places = at[id(one)], at[id(other)]
    for place, record in zip(places, (other, one), strict=True):
        old = records[place]
        records[place] = structs.replace(record, position=old.position, time_us=old.time_us)
    return records


# Lies -------------------------------------------------------------------------------------------------------


def delivered_twice(trace: Trace) -> Doctored:
    record = only(trace.records, Event.DELIVER)[50]
    last = trace.records[-1]
    again = structs.replace(record, position=last.position + 1, time_us=last.time_us)
    return [*trace.records, again], text_of(record.message)


def other_bytes(trace: Trace) -> Doctored:
    record = only(trace.records, Event.DELIVER)[60]
    records = [
        structs.replace(one, checksum=one.checksum ^ 1) if one is record else one for one in trace.records
    ]
    return records, text_of(record.message)


def gap_at_a_process(trace: Trace) -> Doctored:
    """One process lacks a message, and has a later one in the same view; another process has both."""
    for mine in ordered_deliveries(trace).values():
        for record, following in pairwise(mine):
            if record.views != following.views or record.groups != following.groups:
                continue
            if trace.sends[record.message].self_discard:  # type: ignore[index]
                continue
            takers = {
                one.process
                for one in only(trace.records, Event.DELIVER)
                if one.message == record.message and one.views == record.views
            }
            if len(takers) > 1 and record.lts < following.lts:
                return without(trace, record), text_of(record.message)
    raise AssertionError("no such message")


def gap_at_a_daemon(trace: Trace) -> Doctored:
    """The same for a daemon and its bundles."""
    for daemon in trace.daemons:
        mine = [
            one
            for one in only(trace.records, Event.SDELIVER)
            if one.daemon == daemon and one.service in ORDERED_SERVICES and one.message is not None
        ]
        for record, following in pairwise(mine):
            assert record.bundle is not None and following.bundle is not None
            if record.bundle[0] == following.bundle[0] and len(record.destinations) > 1:
                return without(trace, record), daemon
    raise AssertionError("no such bundle")


def wrong_order(trace: Trace) -> Doctored:
    """Two ordered messages of different senders change places."""
    for mine in ordered_deliveries(trace).values():
        for record, following in pairwise(mine):
            assert record.message is not None and following.message is not None
            if record.views == following.views and record.message[0] != following.message[0]:
                return swapped(trace, record, following), text_of(record.message)
    raise AssertionError("no such messages")


def wrong_order_of_one(trace: Trace) -> Doctored:
    """Two FIFO messages of one sender change places; the later one is named with all that it overtakes."""
    for process in trace.by_process:
        mine = [
            one
            for one in only(trace.records, Event.DELIVER)
            if one.process == process and one.service == "fifo"
        ]
        for record, following in pairwise(mine):
            assert record.message is not None and following.message is not None
            if record.views == following.views and record.message[:3] == following.message[:3]:
                return swapped(trace, record, following), text_of(following.message)
    raise AssertionError("no such messages")


def stamped_too_early(trace: Trace) -> Doctored:
    """A message is stamped earlier than what its sender had delivered, by all who tell of it."""
    for sent in only(trace.records, Event.SEND):
        heard = [
            one for one in trace.by_process[sent.process]
            if one.event is Event.DELIVER and one.position < sent.position
        ]  # fmt: skip
        if heard and sent.service == "agreed":
            break
    carrier = next(one for one in only(trace.records, Event.SSEND) if _carries(one, sent.message))
    lts = min(one.lts for one in heard)
    records = [
        structs.replace(one, lts=lts - 1)
        if one.lts and (one.bundle == carrier.bundle if one.bundle else _carries(carrier, one.message))
        else one
        for one in trace.records
    ]
    return records, text_of(sent.message)


def _carries(bundle: Record, message: Identity | None) -> bool:
    if bundle.message is None or message is None or bundle.message[:3] != message[:3]:
        return False
    return 0 <= message[3] - bundle.message[3] < bundle.count


def not_held(trace: Trace) -> Doctored:
    """A safe message was delivered before the signal, and one daemon says nothing of having it."""
    signalled = {record.daemon_view for record in only(trace.records, Event.STRANSSIG)}
    for record in only(trace.records, Event.SDELIVER):
        if record.service != "safe" or record.message is None or len(record.destinations) < 2:
            continue
        if record.bundle is not None and record.bundle[0] not in signalled:
            other = next(daemon for daemon in record.destinations if daemon != record.daemon)
            records = [
                one
                for one in trace.records
                if (one.event, one.bundle, one.daemon) != (Event.HOLD, record.bundle, other)
            ]
            return records, other
    raise AssertionError("no such bundle")


def untold_signal(trace: Trace) -> Doctored:
    """One who had a signal, like those who went on with it, had none."""
    for record in only(trace.records, Event.TRANSSIG):
        later = next(
            (
                one
                for one in trace.by_process[record.process]
                if one.position > record.position and one.event is Event.VIEW and one.groups == record.groups
            ),
            None,
        )
        if later is not None:
            return without(trace, record), record.process
    raise AssertionError("no such signal")


def overfull(trace: Trace) -> Doctored:
    record = only(trace.records, Event.BUFFERS)[1]
    name, (_, limit) = next(iter(record.buffers.items()))
    doctored = structs.replace(record, buffers={**record.buffers, name: (limit + 1, limit)})
    return [doctored if one is record else one for one in trace.records], record.daemon


LIES: dict[str, Callable[[Trace], Doctored]] = {
    "2.5 no duplication": delivered_twice,
    "2.6 deliver integrity": other_bytes,
    "2.8 transitional signals": untold_signal,
    "2.11 FIFO messages": wrong_order_of_one,
    "2.12 causal messages": stamped_too_early,
    "2.13 agreed messages": gap_at_a_process,
    "2.13 agreed messages (daemons)": gap_at_a_daemon,
    "2.13 one order": wrong_order,
    "2.14 safe messages (daemons)": not_held,
    "bounded buffers": overfull,
}
"""For each property that can be broken in a live run as well: a lie that breaks it."""
