"""What follows from the events of a daemon's turn: what is ordered, delivered, announced and sent.

Follows: thesis 5.1 (rules 1 and 2) for a view that works, 6.1.9 for one that is being formed.
Checked by: every test in tests/paper, the oracle's rules in the simulator.
"""

from typing import TYPE_CHECKING

from antiphon.core.membership.changeover import Changeover
from antiphon.core.membership.engine import Engine
from antiphon.core.ordering.entry import Entry
from antiphon.errors import BadFrame
from antiphon.wire.bundle import Flag

if TYPE_CHECKING:
    from antiphon.core.node import Node
    from antiphon.core.origin import Origin


def settle_changeover(node: "Node", changeover: Changeover, origin: "Origin", now_us: int) -> bool:
    """Take what has come over the links of the view that is being formed; whether it may be installed."""
    order = changeover.new.order
    while not changeover.is_finished:
        origin.flush(now_us)
        order.advance()
        if not order.ready:
            return False
        entry = order.ready.popleft()
        assert isinstance(entry, Entry), "nobody is offered anything of a view that is not installed"
        had_state = changeover.recovery is not None
        try:
            changeover.take(entry, node.membership.rounds.current, now_us)
        except BadFrame as error:
            node.counters[error.reason] += 1
            if entry.header.flags & Flag.STATE:
                node.membership.loss.refuse_state(entry.daemon, error.reason, now_us)
                return False
        if changeover.recovery is not None and not had_state:
            node.membership.formation.state_is_known(now_us)
    return True


def settle_order(node: "Node", origin: "Origin", now_us: int) -> bool:
    """Order what clients have sent, and deliver what the lines of the view allow, as far as one turn goes;
    whether that was all."""
    order, admission = node.engine.order, node.admission
    is_settled = True
    admission.begin(now_us)
    while True:
        origin.flush(now_us)
        if node.sessions.waiting and not order.ready:
            admission.admit(origin, now_us)
        order.advance()
        admission.look(now_us)
        if order.ready and not node.regrouping.deliver(order.ready, node.deliver):
            is_settled = False
            break
        has_more = order.moved or (order.to_tell and order.is_turn)
        if not has_more and not (admission.may_go_on(now_us) and admission.is_accepting):
            break
        if admission.is_exhausted:
            is_settled = False
            break
    if order.own_stable and not node.regrouping.is_blocking:  # what the last view has left comes first
        node.delivery.tell_accepted(order.own_stable)
    return is_settled and not node.regrouping.is_under_way


def send_on(node: "Node", engine: Engine, origin: "Origin", now_us: int) -> bool:
    """Announce and send what a view has to; whether nothing follows from that."""
    engine.forwarder.timeout(now_us)
    engine.announce(now_us)
    is_settled = True
    if engine.site_link is not None:
        wants_turn = node.admission.has_leave and node.admission.may_go_on(now_us)
        engine.site_link.conclude(origin.is_waiting or wants_turn, now_us)
        is_settled = not engine.order.moved
    engine.pump(now_us)
    return is_settled
