"""What is looked at from time to time: how full a daemon's buffers are, and how its links do."""

from collections.abc import Iterator
from typing import Any

from antiphon.core.clock.reading import Said
from antiphon.core.links.site import SiteLink
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

_TURNS = ("tokens", "tokens_resent")
"""What only a site link counts."""


def fill(node: Node) -> dict[str, tuple[int, int]]:
    """Every buffer: (in use, limit)."""
    return {name: (gauge["bytes"], gauge["limit"]) for name, gauge in buffers(node).items()}


def clock_sample(node: Node, said: Said) -> dict[str, Any]:
    """The fields of a `clock` record: what a daemon says the time is."""
    return {
        "state": "reference" if said.basis.is_external else "internal",
        "peer": node.config.daemon_names[said.basis.root],
        "clock": {"time_us": said.time_us, "error_us": said.error_us, "since_us": said.basis.since_us},
    }


def link_samples(node: Node, time_us: int) -> Iterator[Record]:
    """A record for each link of the installed view, and for its site link, whose peer is called after all who
    are on it; their positions are still to be set."""
    if node.engine.site_link is not None:
        yield _site_link_sample(node, node.engine.site_link, time_us)
    names = node.config.daemon_names
    for number, link in node.engine.links.items():
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


def _site_link_sample(node: Node, link: SiteLink, time_us: int) -> Record:
    told = {_COUNTERS[name]: count for name, count in link.counters.items() if name in _COUNTERS}
    told["round_trip_us"] = link.round_us
    told["in_flight_packets"] = link.in_flight_packets
    told["waiting_bytes"] = link.waiting_bytes
    told |= {name: count for name, count in link.counters.items() if name in _TURNS}
    record = Record(0, time_us, Event.LINK, node.name)
    record.peer = f"{link.protocol} " + "-".join(node.config.daemon_names[number] for number in link.members)
    record.daemon_view = node.view.id
    record.state = "open"
    record.link = told
    return record
