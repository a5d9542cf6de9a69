"""What a node says about itself: plain values, ready for JSON."""

from itertools import islice
from typing import TYPE_CHECKING

from antiphon import limits
from antiphon.core.groups.sessions import Session

if TYPE_CHECKING:
    from antiphon.core.node import Node


def describe(node: "Node", now_us: int) -> dict[str, object]:
    """Everything that a person or a console wants to know."""
    config = node.config
    order = node.order
    slowest_agreed, slowest_stable = order.lines.slowest()
    return {
        "daemon": node.name,
        "site": config.sites[node.me].name,
        "cluster": config.settings.name,
        "incarnation": node.incarnation,
        "sites": [site.name for site in config.sites],
        "accepting": node.is_accepting,
        "holding": [config.sites[site].name for site in sorted(node.hold.sites)],
        "slow_sessions": [
            session.private_name for session in node.sessions if session.number in node.hold.slow_sessions
        ],
        "links": [_link(node, number, now_us) for number in node.links],
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


def _link(node: "Node", number: int, now_us: int) -> dict[str, object]:
    link = node.links[number]
    regulator = link.regulator
    return {
        "to": node.config.sites[number].name,
        "protocol": "hop",
        "state": link.state.value,
        "reason": link.reason,
        "silent_us": max(0, now_us - link.heard_us),
        "rtt_us": regulator.rtt_us,
        "window_packets": int(regulator.window_packets),
        "in_flight_packets": link.in_flight_packets,
        "waiting_bytes": link.waiting_bytes,
        **link.counters,
    }


def buffers(node: "Node") -> dict[str, dict[str, int]]:
    """Every buffer with what it holds and the most that it may hold, in bytes.

    The limits are those that back-pressure keeps, given the largest bundle that was seen, rather than what
    memory could bear: a daemon above one of them does not hold its senders back as it should.
    """
    order = node.order
    sites = len(node.config.sites)
    # A source stops at its limit, so it overshoots by one bundle. Others may still hold as much again of it
    # that it has already forgotten. What it sends again to joining sites (LATE) is not held back, but is no
    # more than all that is under way, once a site.
    per_source = node.config.settings.unstable_bytes + order.largest_bytes
    late_bytes = order.late_bytes()
    table = {
        "unstable": _row(order.held_bytes - late_bytes, 2 * sites * per_source),
        "own_unstable": _row(order.own_unstable_bytes - order.late_bytes(node.me), per_source),
        "late": _row(late_bytes, 3 * sites * per_source),
        "session_input": _row(node.sessions.input_bytes, sum(map(_input_limit, node.sessions))),
        "reassembly": _row(
            sum(reassembly.bytes_held for reassembly in node.reassembly),
            sum(
                3 * max(per_source, node.config.settings.unstable_bytes + reassembly.largest_bytes)
                for reassembly in node.reassembly
            ),
        ),
        "unreliable_reassembly": _row(
            sum(reassembly.bytes_held for reassembly in node.unreliable_reassembly),
            sites * limits.UNRELIABLE_REASSEMBLY_MAX_BYTES,
        ),
    }
    for number, link in node.links.items():
        name = node.config.sites[number].name
        passing = max(per_source, node.config.settings.unstable_bytes + link.largest_waiting_bytes)
        table[f"link_queue:{name}"] = _row(link.waiting_bytes, sites * (sites + 1) * passing)
        table[f"link_open:{name}"] = _row(link.open_bytes, link.open_limit_bytes)
        table[f"link_unreliable:{name}"] = _row(
            link.unreliable_waiting_bytes, max(limits.LINK_UNRELIABLE_QUEUE_BYTES, limits.FRAME_MAX_BYTES)
        )
    return table


def _input_limit(session: Session) -> int:
    """Its connection is not read from the limit on: the last bundle overshoots, and an end may follow."""
    newest = islice(reversed(session.input), 2)
    return limits.SESSION_INPUT_MAX_BYTES + sum(len(pending.bundle) for pending in newest)


def _row(used: int, limit: int) -> dict[str, int]:
    return {"bytes": used, "limit": limit}
