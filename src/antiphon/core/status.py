"""What a node reports about itself: plain values, ready for JSON."""

from itertools import islice
from typing import TYPE_CHECKING

from antiphon import limits
from antiphon.core.groups.sessions import Session
from antiphon.core.links.hop import HopLink
from antiphon.core.links.link import Link
from antiphon.core.links.site import SiteLink
from antiphon.core.membership.peers import Peer
from antiphon.core.membership.rounds import Round
from antiphon.wire.bundle import Flag

if TYPE_CHECKING:
    from antiphon.core.node import Node


NAMES_MAX = 100
"""Sessions that are named because they are slow, or wait for slow ones; the table of sessions has all."""


def describe(node: "Node", now_us: int) -> dict[str, object]:
    """Everything that a person or a console wants to know, in one go."""
    return overview(node, now_us) | {
        "groups": {
            name: list(group.members.values())
            for name, group in sorted(node.delivery.membership.groups.items())
        },
        "sessions": list(map(session_row, node.sessions)),
    }


def _locks_and_quorums(node: "Node") -> dict[str, object]:
    """Of the first groups, by name, that have some."""
    groups = node.delivery.membership.groups
    locks = islice((name for name in sorted(groups) if groups[name].locks), NAMES_MAX)
    quorums = islice((name for name in sorted(groups) if groups[name].quorum is not None), NAMES_MAX)
    return {
        "locks": {
            name: [
                {"lock": one.name, "holder": one.holder, "fence": one.fence, "waiting": len(one.waiting)}
                for one in groups[name].locks.show_all(groups[name].members.__getitem__)[:NAMES_MAX]
            ]
            for name in locks
        },
        "quorums": {name: groups[name].quorum_word for name in quorums},
    }


def overview(node: "Node", now_us: int) -> dict[str, object]:
    """All but the groups and the sessions, of which there may be tens of thousands."""
    config = node.config
    order = node.order
    slowest_agreed, slowest_stable = order.lines.slowest()
    names = config.daemon_names
    vacant = node.membership.presence.vacant
    return {
        "daemon": node.name,
        "site": config.sites[node.site].name,
        "state": node.state,
        "group_state": node.group_state,
        "view": _view(node, now_us),
        "flow": flow(node, now_us),
        "left_out": [
            {"daemon": names[daemon], "reason": reason, "remaining_us": remaining_us}
            for daemon, (reason, remaining_us) in node.membership.exclusions.current(now_us).items()
        ],
        "nonsense": node.membership.misconduct.describe(now_us),
        "other_versions": [
            {"daemon": names[daemon], "of": heard.what, "version": heard.version, "ours": heard.ours}
            for daemon, heard in node.gate.other_versions.current().items()
        ],
        "cluster": config.settings.name,
        "incarnation": node.incarnation,
        "daemons": [name for number, name in enumerate(names) if number not in vacant],
        "sites": [site.name for site in config.sites],
        "accepting": node.admission.is_accepting,
        "holding": node.backpressure.other_names,
        "slow_sessions": node.backpressure.slow_names[:NAMES_MAX],
        "held_sessions": [session.private_name for session in node.sessions.parked[:NAMES_MAX]],
        **_locks_and_quorums(node),
        "slow_receivers": {
            "now": sum(bool(session.lag) for session in node.sessions),
            "warned": node.sessions.warned,
            "dropped_messages": node.sessions.dropped_messages,
            "dropped_bytes": node.sessions.dropped_bytes,
        },
        "links": [_link(node, number, link, now_us) for number, link in node.working_links.items()],
        "ring": None if node.working_site_link is None else _site_link(node, node.working_site_link, now_us),
        "peers": [
            _peer(node, peer, now_us)
            for number, peer in node.membership.peers.items()
            if number not in vacant
        ],
        "ordering": {
            "order": config.settings.order,
            "roles": _roles(node, now_us),
            "clock": order.clock,
            "agreed_line": order.lines.agreed,
            "stable_line": order.lines.stable,
            "waits_for": names[slowest_agreed],
            "stability_waits_for": names[slowest_stable],
            "bundles_held": order.retained_count,
            "bytes_held": order.retained_bytes,
            "allowed_bytes": node.admission.allowance.bytes,
            "stable_bytes_per_s": node.admission.allowance.rate_bytes_per_s,
            "stable_after_us": node.admission.allowance.least_us,
        },
        "causal": _causal(node),
        "time": node.time.describe(now_us),
        "edges": list(node.edges.server.states()),
        "feed": {
            "groups": len(node.edges.log.groups),
            "bytes": node.edges.log.size_bytes,
            "gaps": node.edges.server.gaps,
        },
        "security": None
        if node.seal is None
        else node.seal.describe(names, frozenset(config.neighbours_of(node.me)) - vacant),
        "counters": dict(sorted(node.counters.items())),
        "buffers": buffers(node),
        "rounds": rounds(node, now_us),
    }


def _causal(node: "Node") -> dict[str, object]:
    """What is kept and told of causal histories in the installed view; nothing, until a causal message is
    sent in it."""
    histories, queue = node.engine.histories, node.engine.order.causal
    return {
        "is_active": histories.is_active,
        "causes_kept": histories.kept_causes,
        "histories_told": histories.told,
        "causes_told": histories.told_causes,
        "largest_bytes": histories.largest_bytes,
        "cut_short": histories.cut_short,
        "ahead_of_place": queue.overtook,
        "waiting": queue.waiting_count,
    }


def _roles(node: "Node", now_us: int) -> list[dict[str, object]]:
    """Which sources are waited for in the agreed order, since when, and why."""
    names = node.config.daemon_names
    return [
        {
            "source": names[role.source],
            "role": "active" if role.is_active else "passive",
            "role_number": role.number,
            "sequencer": None if role.sequencer is None else names[role.sequencer],
            "since_us_ago": max(0, now_us - role.since_us),
            "reason": role.reason,
        }
        for role in node.order.roles_now()
    ]


def session_row(session: Session) -> dict[str, object]:
    """The row of one session."""
    return {
        "name": session.private_name,
        "number": session.number,
        "priority": session.priority,
        "slow_policy": session.slow,
        "is_slow": bool(session.lag),
        "warned": session.warned,
        "dropped_messages": session.dropped_messages,
        "groups": sorted(session.groups),
        "input_bytes": session.input_bytes,
        "sent_messages": session.sequence - 1,
        **({} if session.rights is None else {"user": session.rights.user.name}),
    }


def _view(node: "Node", now_us: int) -> dict[str, object]:
    names = node.config.daemon_names
    view = node.view
    merging = node.regrouping.merging
    return {
        "id": view.id,
        "members": [names[number] for number in view.members],
        "links": [[names[one], names[other]] for one, other in view.links],
        "since_us_ago": now_us - node.membership.standing.since_us,
        "is_working": node.membership.is_active,
        "groups_wait_for": [] if merging is None else [names[number] for number in merging.missing],
    }


def flow(node: "Node", now_us: int) -> dict[str, object]:
    """Whether messages flow; if not, since when, who is waited for and what is missing."""
    found = node.stalls.standstill()
    if found is None:
        return {"is_flowing": True, "stopped_us_ago": None, "waits_for": [], "detail": ""}
    names = node.config.daemon_names
    return {
        "is_flowing": False,
        "stopped_us_ago": now_us - found.since_us,
        "waits_for": [names[daemon] for daemon in found.waits_for],
        "detail": found.detail,
    }


def _peer(node: "Node", peer: Peer, now_us: int) -> dict[str, object]:
    """What is known of a daemon by its beats; the members of a view do without them."""
    return {
        "name": node.config.daemon_names[peer.number],
        "in_view": peer.number in node.view.members,
        "heard_us_ago": now_us - peer.heard_us if peer.incarnation else None,
        "hears_us_us_ago": now_us - peer.echoed_us if peer.echoed_us >= 0 else None,
        "rtt_us": peer.rtt_us,
        "losses": peer.damping.losses,
        "damped_us": peer.damping.remaining_us(now_us),
        "has_left": node.membership.leaving.has_left(peer.number, peer.incarnation),
    }


def rounds(node: "Node", now_us: int) -> list[dict[str, object]]:
    """Why views changed: the rounds of the membership, newest last, the current one included."""
    known = node.membership.rounds
    return [
        _round(node, record, now_us)
        for record in (*known.past, *((known.current,) if known.current is not None else ()))
    ]


def _round(node: "Node", record: Round, now_us: int) -> dict[str, object]:
    names = node.config.daemon_names
    return {
        "ago_us": now_us - record.started_us,
        "took_us": None if record.ended_us is None else record.ended_us - record.started_us,
        "reason": record.reason.value,
        "peer": None if record.peer is None else names[record.peer],
        "detail": record.detail,
        "ended": record.ended,
        "view": record.view,
        "members": [names[number] for number in record.members],
        "joined": [names[number] for number in record.joined],
        "lost": [names[number] for number in record.lost],
        "states": [[state, us] for state, us in record.states],
        "recovered_bundles": record.recovered_bundles,
        "recovered_bytes": record.recovered_bytes,
        "resent_bundles": record.resent_bundles,
        "resent_bytes": record.resent_bytes,
    }


def _link(node: "Node", number: int, link: Link, now_us: int) -> dict[str, object]:
    regulator = link.regulator
    return {
        "to": node.config.daemon_names[number],
        "protocol": link.protocol,
        "state": link.state.value,
        "reason": link.reason,
        "silent_us": max(0, now_us - link.heard_us),
        "rtt_us": regulator.rtt_us,
        "packet_bytes": link.packet_bytes,
        "path_bytes": link.path.size_bytes if isinstance(link, HopLink) else None,
        "window_packets": int(regulator.window_packets),
        "in_flight_packets": link.in_flight_packets,
        "waiting_bytes": link.waiting_bytes,
        **link.counters,
    }


def _site_link(node: "Node", link: SiteLink, now_us: int) -> dict[str, object]:
    names = node.config.daemon_names
    return {
        "protocol": link.protocol,
        "members": [names[number] for number in link.members],
        "representative": names[link.members[0]],
        "has_token": link.has_turn,
        "round_us": link.round_us,
        "in_flight_packets": link.in_flight_packets,
        "waiting_bytes": link.waiting_bytes,
        "mates": [
            {
                "name": names[number],
                "state": mate.state.value,
                "reason": mate.reason,
                "silent_us": max(0, now_us - mate.heard_us),
            }
            for number, mate in link.mates.items()
        ],
        **link.counters,
        **link.figures(),
    }


def buffers(node: "Node") -> dict[str, dict[str, int]]:
    """Every buffer with its size and the most that it may have, in bytes.

    The limits are those that back-pressure keeps, given the largest bundle that was seen, rather than what
    memory could bear: a daemon above one of them does not stop its senders as it should.
    """
    engine = node.engine
    order = engine.order
    members = len(engine.view.members)
    # A source stops at its limit, so it overshoots by one bundle. Others may still retain as much again of
    # it that it has already discarded. What it retransmits to joining sites (LATE) is not limited, but is no
    # more than all that is under way, once a member. Nor is what daemons retransmit to form a view (CONTROL),
    # which is no more than the ended views retained: one daemon retransmits it to all that lack it.
    per_source = node.config.settings.unstable_bytes + order.largest_bytes
    late_bytes, recovery_bytes = order.flagged_bytes(Flag.LATE), order.flagged_bytes(Flag.CONTROL)
    own_again_bytes = order.flagged_bytes(Flag.LATE | Flag.CONTROL, node.me)
    table = {
        "unstable": _row(order.retained_bytes - late_bytes - recovery_bytes, 2 * members * per_source),
        "own_unstable": _row(order.own_unstable_bytes - own_again_bytes, per_source),
        "late": _row(late_bytes, 3 * members * per_source),
        "recovery": _row(recovery_bytes, 5 * node.config.daemon_count * per_source),
        "session_input": _row(node.sessions.input_bytes, _input_limit(node)),
        "reassembly": _row(
            sum(reassembly.buffered_bytes for reassembly in engine.reassembly.values()),
            sum(
                3 * max(per_source, node.config.settings.unstable_bytes + reassembly.largest_bytes)
                for reassembly in engine.reassembly.values()
            ),
        ),
        "unreliable_reassembly": _row(
            sum(reassembly.buffered_bytes for reassembly in engine.unreliable_reassembly.values()),
            members * limits.UNRELIABLE_REASSEMBLY_MAX_BYTES,
        ),
    }
    links: dict[str, Link | SiteLink] = {
        node.config.daemon_names[number]: link for number, link in node.working_links.items()
    }
    if node.working_site_link is not None:
        links["ring"] = node.working_site_link
    for name, link in links.items():
        passing = max(per_source, node.config.settings.unstable_bytes + link.largest_waiting_bytes)
        table[f"link_queue:{name}"] = _row(link.waiting_bytes, members * (members + 1) * passing)
        table[f"link_open:{name}"] = _row(link.open_bytes, link.open_limit_bytes)
        table[f"link_unreliable:{name}"] = _row(
            link.unreliable_waiting_bytes, max(limits.LINK_UNRELIABLE_QUEUE_BYTES, limits.FRAME_MAX_BYTES)
        )
    return table


def _input_limit(node: "Node") -> int:
    """A connection is not read from its limit on: the last bundle overshoots, and an end may follow."""
    overshoot = sum(
        pending.size_bytes
        for session in node.sessions
        if session.input
        for pending in islice(reversed(session.input), 2)
    )
    return limits.SESSION_INPUT_MAX_BYTES * len(node.sessions) + overshoot


def _row(used: int, limit: int) -> dict[str, int]:
    return {"bytes": used, "limit": limit}
