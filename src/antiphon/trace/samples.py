"""What is looked at from time to time: how full a daemon's buffers are, and how its links do."""

from collections.abc import Iterator

from antiphon.core.node import Node
from antiphon.core.status import buffers
from antiphon.trace.records import Event, Record

_COUNTERS = {
    "packets_sent": "packets",
    "packets_received": "received",
    "retransmitted": "resent",
    "duplicates": "duplicates",
    "nacks_sent": "nacks",
    "unreliable_dropped": "unreliable_dropped",
    "failures": "failures",
}
"""A link's own name for what it counts: the trace's."""


def fill(node: Node) -> dict[str, tuple[int, int]]:
    """Every buffer: (in use, limit)."""
    return {name: (gauge["bytes"], gauge["limit"]) for name, gauge in buffers(node).items()}


def link_samples(node: Node, time_us: int) -> Iterator[Record]:
    """A record for each link of the installed view; their positions are still to be set."""
    names = node.config.daemon_names
    for number, link in node.term.links.items():
        told = {_COUNTERS[name]: count for name, count in link.counters.items() if name in _COUNTERS}
        told["round_trip_us"] = round(link.regulator.rtt_us)
        told["window_packets"] = int(link.regulator.window_packets)
        told["in_flight_packets"] = link.in_flight_packets
        told["waiting_bytes"] = link.waiting_bytes
        record = Record(0, time_us, Event.LINK, node.name)
        record.peer = names[number]
        record.daemon_view = node.view.id
        record.state = link.state.value
        record.link = told
        yield record
