"""Packets that no daemon has sent, made by an attacker that can write to a daemon's socket and knows its
view."""

from antiphon.core.links.hop import HopLink
from antiphon.core.links.ring import Ring
from antiphon.core.links.token_site import TokenSite
from antiphon.core.node import Node
from antiphon.core.overlay.topology import segments
from antiphon.wire import packet
from antiphon.wire.packet import EVERYBODY, PacketKind, Update


def usurping(node: Node | None, sender: int) -> bytes | None:
    """A data packet for `node` that takes the place of the next one of a neighbour, on their link or ring, if
    there is such a neighbour. What it says is old, and every number in it is plausible."""
    if node is None:
        return None
    view = node.membership.standing.working_view
    link, ring = node.working_links.get(sender), node.working_site_link
    if view is None or sender not in view.members:
        return None
    if isinstance(link, HopLink):
        receiver, newest = node.me, link.reception.highest
    elif isinstance(ring, Ring) and sender in ring.mates:
        receiver, newest = EVERYBODY, ring.reception.highest
    elif isinstance(ring, TokenSite) and sender in ring.mates:
        receiver, newest = EVERYBODY, ring.receptions[sender].highest
    else:
        return None
    prefix = packet.prefix(
        PacketKind.DATA,
        digest=node.config.digest,
        sender=sender,
        receiver=receiver,
        incarnation=view.incarnation(sender) or 0,
        view=view.id,
    )
    found = segments(node.config, view.members, view.links)
    source = next(segment[0] for segment in found if sender in segment)
    stale = Update(source, 0, 0, view.id, view.id)
    return packet.whole(prefix, packet.update_item(stale), newest + 1, counter=1)
