"""Mutants of the daemon membership: who is there, which view is agreed on, what stays of the one before."""

from collections.abc import Collection
from typing import Any

from antiphon.config import Config
from antiphon.core.membership import proposals
from antiphon.core.membership.daemons import DaemonMembership
from antiphon.core.membership.damping import Damping
from antiphon.core.membership.engine import Engine
from antiphon.core.membership.gathering import Pair
from antiphon.core.membership.identities import Identities
from antiphon.core.membership.pace import Pace
from antiphon.core.membership.peers import Peer
from antiphon.core.membership.proposals import Proposals
from antiphon.core.membership.voice import Voice
from antiphon.core.node import Node
from antiphon.core.view import DaemonView
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.wire.membership import Beat, Proposal
from antiphon.wire.packet import CHECK_BYTES, PacketKind, check

_NEVER_US = 1 << 62

# Who is there -----------------------------------------------------------------------------------------------


def _probing_ends(original: Original) -> Original:
    def asked(peer: Peer, timing: Pace, now_us: int) -> None:
        original(peer, timing, now_us)
        if peer.probe_wait_us >= timing.probe_max_us:
            peer.probe_us = _NEVER_US

    return asked


def _damped_for_ever(original: Original) -> Original:
    def lost(damping: Damping, timing: Pace, now_us: int, **options: bool) -> None:
        original(damping, timing, now_us, **options)
        if damping.term_us:
            damping.term_us = _NEVER_US

    return lost


def _beats_prove_all(original: Original) -> Original:
    """A daemon that receives beats assumes that larger packets get through, too, whatever became of those."""

    return lambda voice, receiver, beat, *, is_full: original(voice, receiver, beat, is_full=False)


def _twins_unnoticed(original: Original) -> Original:
    return lambda identities, *arguments: False


def _deaf_to_new_lives(original: Original) -> Original:
    """A beat with an older clock is an old one, also when it comes from another life of the daemon."""

    def hear(peer: Peer, incarnation: int, beat: Beat, now_us: int, timing: Pace, *, is_linked: bool) -> None:
        if beat.clock_us >= peer.clock_us:
            original(peer, incarnation, beat, now_us, timing, is_linked=is_linked)

    return hear


def _nobody_welcome(original: Original) -> Original:
    """A daemon whose view works does not believe others that they would take it in."""

    def hear(peer: Peer, *arguments: Any, **links: bool) -> None:
        original(peer, *arguments, **links)
        peer.welcome = False

    return hear


def _strangers_ignored(original: Original) -> Original:
    """Only daemons of the own site are met while a view works."""

    def meet(membership: DaemonMembership, peer: Peer, *arguments: Any, **others: Any) -> None:
        if peer.number in membership.presence.site_mates:
            original(membership, peer, *arguments, **others)

    return meet


def _links_as_configured(original: Original) -> Original:
    def choose_links(config: Config, members: Collection[int], live: Collection[Pair]) -> tuple[Pair, ...]:
        ordered = sorted(members)
        configured = {
            (one, other) for one in ordered for other in config.neighbours_of(one) if other in members
        }
        return tuple(original(config, members, {pair for pair in configured if pair[0] < pair[1]}))

    return choose_links


# Views and their identifiers --------------------------------------------------------------------------------


def _older_proposal_accepted(original: Original) -> Original:
    def receive(proposals: Proposals, sender: int, proposal: Proposal, now_us: int) -> None:
        standing = proposals._standing
        promised, standing.promised = standing.promised, 0
        original(proposals, sender, proposal, now_us)
        standing.promised = standing.promised or promised

    return receive


def _identifiers_without_daemon(original: Original) -> Original:
    """The identifier of a view is a mere time: those who propose at the same time give the same one."""

    def propose(proposals: Proposals, members: frozenset[int], pairs: set[Pair], now_us: int) -> None:
        host: Any = proposals._host
        tick = host.tick
        host.tick = lambda: tick() & ~1023
        try:
            original(proposals, members, pairs, now_us)
        finally:
            del host.tick

    return propose


def _wall_clock_ignored(original: Original) -> Original:
    def start(node: Node, config: Config, name: str, *, wall_us: int = 0, **others: Any) -> None:
        original(node, config, name, wall_us=0, **others)

    return start


def _members_by_distance(original: Original) -> Original:
    """Every daemon lists the members from itself on."""

    def form(node: Node, view: DaemonView, now_us: int) -> None:
        order = sorted(range(len(view.members)), key=lambda at: (view.members[at] - node.me) % 1024)
        members = tuple(view.members[at] for at in order)
        lives = tuple(view.incarnations[at] for at in order)
        original(node, DaemonView(view.id, members, lives, view.links), now_us)

    return form


# What stays of the view before ------------------------------------------------------------------------------


def _packets_of_any_view(original: Original) -> Original:
    """A packet is taken to belong to the view that works, whatever it says."""

    def receive(node: Node, data: memoryview, stride_bytes: int, *others: Any) -> None:
        engine = node._working()
        if engine is not None and stride_bytes > 0:
            changed = bytearray(data)
            for at in range(0, len(changed), stride_bytes):
                if changed[at + 2] not in (PacketKind.BEAT, PacketKind.PROPOSAL):
                    changed[at + 16 : at + 24] = engine.view.id.to_bytes(8, "big")
                    end = min(at + stride_bytes, len(changed)) - CHECK_BYTES
                    changed[end : end + CHECK_BYTES] = check([bytes(changed[at:end])])
            data = memoryview(changed)
        original(node, data, stride_bytes, *others)

    return receive


def _numbers_not_reset(original: Original) -> Original:
    """A session's first bundle in a view follows its last one in the view before."""

    def install(node: Node, *arguments: Any) -> None:
        before = {session: session.last_number for session in node.sessions}
        original(node, *arguments)
        for session, number in before.items():
            session.last_number = number

    return install


def _ready_not_delivered(original: Original) -> Original:
    def freeze(node: Node) -> None:
        node.engine.order.ready.clear()
        original(node)

    return freeze


def _sends_in_the_frozen_view(original: Original) -> Original:
    """What clients send after a view has stopped still gets a number in it."""

    def settle(node: Node, now_us: int) -> None:
        if node._changeover is not None and node.regrouping.merging is None:
            node.engine.order.is_turn = True
            while (turn := node.sessions.take()) is not None:
                node._origin.send(*turn, now_us)
        original(node, now_us)

    return settle


def _delivers_in_the_frozen_view(original: Original) -> Original:
    """The lines of a view that has stopped move on with what the recovery brings, and so do deliveries."""

    def settle(node: Node, now_us: int) -> None:
        if node._changeover is not None:
            node.engine.order.advance()
            node.freeze()
        original(node, now_us)

    return settle


def _clock_at_the_identifier(original: Original) -> Original:
    def begin(engine: Engine, config: Config, view: DaemonView, *, clock: int, **others: Any) -> None:
        original(engine, config, view, clock=view.id, **others)

    return begin


MEMBERSHIP: tuple[Mutant, ...] = (
    Mutant(
        "probing ends", "absent daemons are no longer asked once the waits between questions have grown",
        frozenset(("2.16",)), Peer, "asked", _probing_ends, "partition",
    ),
    Mutant(
        "damped for ever", "a daemon whose link was lost twice is never trusted again",
        frozenset(("2.16",)), Damping, "lost", _damped_for_ever, "flap", shown_by=9,
    ),
    Mutant(
        "beats prove all", "a path that carries beats and loses all larger packets is used again and again",
        frozenset(("2.16",)), Voice, "beat", _beats_prove_all, "holes", shown_by=5,
    ),
    Mutant(
        "twins unnoticed", "a daemon that runs twice is taken for one that is restarted again and again",
        frozenset(("2.16", "2.17")), Identities, "hear", _twins_unnoticed, "twins", shown_by=9,
    ),
    Mutant(
        "nobody welcome", "two views that work never merge",
        frozenset(("2.16",)), Peer, "hear", _nobody_welcome, "partition",
    ),
    Mutant(
        "strangers ignored", "a working view merges only with daemons of its members' sites",
        frozenset(("2.16",)), DaemonMembership, "_meet", _strangers_ignored, "partition",
    ),
    Mutant(
        "links as configured", "links are laid over pairs that do not work",
        frozenset(("2.16",)), proposals, "choose_links", _links_as_configured, "swarm", seeds=40, shown_by=1,
    ),
    Mutant(
        "older proposal accepted", "a proposal counts although a newer one was accepted before",
        frozenset(("2.3", "2.4", "2.20")), Proposals, "receive", _older_proposal_accepted, "swarm",
        seeds=40, shown_by=6,
    ),
    Mutant(
        "identifiers without daemon", "two views that are proposed at the same time have one identifier",
        frozenset(("2.4", "2.20")), Proposals, "propose", _identifiers_without_daemon, "partition",
    ),
    Mutant(
        "wall clock ignored", "a restarted daemon begins with the identifiers of its life before",
        frozenset(("2.20",)), Node, "__init__", _wall_clock_ignored, "restart",
    ),
    Mutant(
        "members by distance", "every daemon lists the members of a view from itself on",
        frozenset(("2.20",)), Node, "form", _members_by_distance, "crash",
    ),
    Mutant(
        "packets of any view", "packets of the view before count in the new one",
        frozenset(("2.6", "2.7", "2.10", "2.17", "2.18")), Node, "receive", _packets_of_any_view, "merge",
        shown_by=4,
    ),
    Mutant(
        "numbers not reset", "a session's first bundle in a view waits for its last one of the view before",
        frozenset(("2.10", "2.17")), Node, "_install", _numbers_not_reset, "crash",
        shown_by=2,
    ),
    Mutant(
        "ready not delivered", "what was about to be delivered when a view stopped is forgotten",
        frozenset(("2.7", "2.10", "2.15")), Node, "freeze", _ready_not_delivered, "slices",
        shown_by=8,
    ),
    Mutant(
        "sends in the frozen view", "new bundles get numbers in a view whose state was already told",
        frozenset(("2.7", "2.10")), Node, "settle", _sends_in_the_frozen_view, "swarm",
    ),
    Mutant(
        "delivers in the frozen view", "recovered bundles are delivered as they come, before the signal",
        frozenset(("2.4", "2.8")), Node, "settle", _delivers_in_the_frozen_view, "sites", seeds=60,
        shown_by=51,
    ),
    Mutant(
        "clock at the identifier", "a daemon's clock is set back to the identifier of its new view",
        frozenset(("2.12", "2.13")), Engine, "__init__", _clock_at_the_identifier, "merge",
        shown_by=3,
    ),
    Mutant(
        "deaf to new lives", "a daemon whose machine was started anew is not heard for a long time",
        frozenset(("2.16",)), Peer, "hear", _deaf_to_new_lives, "restart",
    ),
)  # fmt: skip
