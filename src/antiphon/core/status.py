"""What a node says about itself: plain values, ready for JSON."""

from typing import TYPE_CHECKING

from antiphon import limits

if TYPE_CHECKING:
    from antiphon.core.node import Node


def describe(node: "Node", now_us: int) -> dict[str, object]:
    """Everything that a person or a console wants to know."""
    config = node.config
    order = node.order
    slowest_agreed, slowest_stable = order.lines.slowest()
    return {
        "daemon": node.name,
        "cluster": config.settings.name,
        "incarnation": node.incarnation,
        "sites": [site.name for site in config.sites],
        "accepting": node.is_accepting,
        "holding": [config.sites[site].name for site in sorted(node.hold.sites)],
        "links": [_link(node, number) for number in node.links],
        "ordering": {
            "clock": order.lines.clock,
            "agreed_line": order.lines.agreed,
            "stable_line": order.lines.stable,
            "waits_for": config.sites[slowest_agreed].name,
            "stability_waits_for": config.sites[slowest_stable].name,
            "bundles_held": order.held_count,
            "bytes_held": order.held_bytes,
        },
        "groups": {
            name: list(group.members.values())
            for name, group in sorted(node.delivery.membership.groups.items())
        },
        "sessions": [
            {
                "name": session.private_name,
                "number": session.number,
                "priority": session.priority,
                "groups": sorted(session.groups),
                "input_bytes": session.input_bytes,
                "sent_messages": session.sequence - 1,
            }
            for session in node.sessions
        ],
        "counters": dict(sorted(node.counters.items())),
        "buffers": buffers(node),
    }


def _link(node: "Node", number: int) -> dict[str, object]:
    link = node.links[number]
    regulator = link.regulator
    return {
        "to": node.config.sites[number].name,
        "protocol": "hop",
        "state": link.state.value,
        "reason": link.reason,
        "rtt_us": regulator.rtt_us,
        "window_packets": int(regulator.window_packets),
        "in_flight_packets": link.in_flight_packets,
        "waiting_bytes": link.waiting_bytes,
        **link.counters,
    }


def buffers(node: "Node") -> dict[str, dict[str, int]]:
    """Every buffer with what it holds and the most that it may hold, in bytes."""
    settings = node.config.settings
    sites = len(node.config.sites)
    # A source stops at its limit, so it overshoots by one bundle; what it sends again to a joining site
    # (LATE) is at most all of that once more.
    per_source = 2 * (settings.unstable_bytes + limits.FRAME_MAX_BYTES)
    table = {
        "unstable": _row(node.order.held_bytes, sites * per_source),
        "own_unstable": _row(node.order.own_unstable_bytes, per_source),
        "session_input": _row(
            node.sessions.input_bytes,
            max(1, len(node.sessions)) * (limits.SESSION_INPUT_MAX_BYTES + limits.FRAME_MAX_BYTES),
        ),
        "reassembly": _row(
            sum(reassembly.bytes_held for reassembly in node.reassembly), sites * limits.REASSEMBLY_MAX_BYTES
        ),
        "unreliable_reassembly": _row(
            sum(reassembly.bytes_held for reassembly in node.unreliable_reassembly),
            sites * limits.UNRELIABLE_REASSEMBLY_MAX_BYTES,
        ),
    }
    for number, link in node.links.items():
        name = node.config.sites[number].name
        table[f"link_queue:{name}"] = _row(link.waiting_bytes, sites * per_source)
        table[f"link_open:{name}"] = _row(link.open_bytes, sites * per_source)
    return table


def _row(used: int, limit: int) -> dict[str, int]:
    return {"bytes": used, "limit": limit}
