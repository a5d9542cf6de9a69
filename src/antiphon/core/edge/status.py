"""What an edge reports about itself: plain values, ready for JSON."""

from itertools import islice
from typing import TYPE_CHECKING

from antiphon import limits
from antiphon.core.edge.connection import Connection
from antiphon.core.status import session_row

if TYPE_CHECKING:
    from antiphon.core.edge.node import EdgeNode

NAMES_MAX = 100
"""Groups that are named because they wait."""


def describe(node: "EdgeNode", now_us: int) -> dict[str, object]:
    """Everything that a person or a console wants to know, in one go."""
    return overview(node, now_us) | {
        "groups": {name: list(group.members.values()) for name, group in sorted(node.members.groups.items())},
        "sessions": list(map(session_row, node.sessions)),
    }


def overview(node: "EdgeNode", now_us: int) -> dict[str, object]:
    """All but the groups and the sessions, of which there may be tens of thousands."""
    links, feed, members, sending = node.links, node.feed, node.members, node.sending
    main, standby, position = links.main, links.standby, feed.position
    waits = (name for name, group in sorted(members.groups.items()) if not group.flows)
    return {
        "edge": node.name,
        "daemon": node.name,
        "incarnation": node.incarnation,
        "state": "unattached" if main is None else "attached",
        "unattached_us": None if links.lost_us is None else now_us - links.lost_us,
        "attachment": None if main is None else _connection(main, now_us),
        "standby": None if standby is None else _connection(standby, now_us),
        "attachments": _places(node, now_us),
        "losses": links.losses,
        "hierarchy": _hierarchy(node, now_us),
        "multicast": _multicast(node),
        "complaint": node.complaint,
        "position": None
        if position is None
        else {"view": position.view, "branch": position.branch, "place": position.place},
        "flow": {
            "groups": len(members.groups),
            "flowing": sum(group.flows for group in members.groups.values()),
            "waiting": list(islice(waits, NAMES_MAX)),
            "gaps": members.gaps,
            "ignored": feed.again,
        },
        "sending": {
            "sponsored": sending.asked,
            "waiting_bundles": node.sessions.waiting,
            "unsure_messages": sending.unsure,
        },
        "slow_receivers": {
            "now": sum(bool(session.lag) for session in node.sessions),
            "warned": node.sessions.warned,
            "dropped_messages": node.sessions.dropped_messages,
            "dropped_bytes": node.sessions.dropped_bytes,
        },
        "edges": list(node.behind.states()),
        "edge_gaps": node.behind.server.gaps,
        "counters": dict(sorted(node.counters.items())),
        "buffers": buffers(node),
    }


def _hierarchy(node: "EdgeNode", now_us: int) -> dict[str, object] | None:
    """What it is among the other edges, if it organises itself."""
    if node.links.organiser is None:
        return None
    hierarchy = node.links.organiser.hierarchy
    return {
        "role": hierarchy.role.value,
        "reason": hierarchy.reason.value,
        "since_us_ago": now_us - hierarchy.since_us,
        "coordinator": hierarchy.coordinator,
        "coordinators_known": len(hierarchy.known),
        "moves": hierarchy.moves,
        "behind": node.behind.server.report.behind,
    }


def _multicast(node: "EdgeNode") -> dict[str, object] | None:
    """What it multicasts to those behind it, and what it hears, if it uses multicast."""
    own = node.behind.server.cast
    return None if own is None else {"own": own.figures(), "heard": node.hearing.figures()}


def _connection(connection: Connection, now_us: int) -> dict[str, object]:
    attached = connection.attached
    return {
        "place": connection.place,
        "name": "" if attached is None else attached.name,
        "daemon": "" if attached is None else attached.daemon,
        "path": [] if attached is None else list(attached.path),
        "since_us_ago": now_us - connection.since_us,
        "silent_us": now_us - connection.heard_us,
        "groups": len(connection.listened),
        "waiting_bytes": connection.waiting_bytes,
    }


def _places(node: "EdgeNode", now_us: int) -> list[dict[str, object]]:
    """The addresses, in the order of preference: what becomes of each."""
    stages = {connection.place: connection.stage.value for connection in node.links.connections}
    return [
        {
            "place": number,
            "address": place.address,
            "state": stages.get(number, "failed" if place.failures else "unused"),
            "failures": place.failures,
            "reason": place.reason,
            "again_us": max(0, place.until_us - now_us),
        }
        for number, place in enumerate(node.links.places)
    ]


def buffers(node: "EdgeNode") -> dict[str, dict[str, int]]:
    """Every buffer with its size and the most that it may have, in bytes."""
    overshoot = limits.FRAME_MAX_BYTES
    table = {
        "session_input": {
            "bytes": node.sessions.input_bytes,
            "limit": limits.EDGE_QUEUE_BYTES + overshoot,
        },
        "feed": {
            "bytes": node.behind.log.size_bytes,
            "limit": node.settings.feed_retain_bytes + overshoot,
        },
        "cast_heard": {
            "bytes": node.hearing.repairs.size_bytes,
            "limit": limits.CAST_KEEP_BYTES + limits.CAST_PACKET_BYTES,
        },
        "cast_waiting": {
            "bytes": node.hearing.waiting_bytes,
            "limit": limits.CAST_QUEUE_BYTES + overshoot,
        },
    }
    own = node.behind.server.cast
    if own is not None:
        table["cast"] = {
            "bytes": own.repairs.size_bytes,
            "limit": limits.CAST_KEEP_BYTES + limits.CAST_PACKET_BYTES,
        }
    for connection in node.links.connections:
        table[f"link_queue:{connection.place}"] = {
            "bytes": connection.waiting_bytes,
            "limit": limits.EDGE_OUTPUT_BYTES + overshoot,
        }
    return table
