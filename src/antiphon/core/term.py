"""What a daemon has once per daemon view: links, trees, order and flow control, all built from the view.

Nothing of it outlives the view. In particular no credit, window or wish to hold is carried over, so none can
be lost on the way.
"""

from collections.abc import Mapping

from antiphon import limits
from antiphon.config import Config
from antiphon.core.effects import Datagram
from antiphon.core.links.building import build
from antiphon.core.links.link import Link
from antiphon.core.links.tcp import Stream
from antiphon.core.membership.view import DaemonView
from antiphon.core.ordering.hold import Hold
from antiphon.core.ordering.symmetric import SymmetricOrder, Unreliable
from antiphon.core.ordering.updates import Announcer
from antiphon.core.overlay import routing
from antiphon.core.overlay.forwarding import Forwarder
from antiphon.core.overlay.fragments import Reassembly


class Term:
    """One daemon's working parts for one daemon view."""

    def __init__(
        self,
        config: Config,
        view: DaemonView,
        *,
        me: int,
        clock: int,
        streams: Mapping[int, Stream],
        datagrams: list[Datagram],
        now_us: int,
    ) -> None:
        settings = config.settings
        delta_us = int(settings.delta_ms * 1000)
        self.view = view
        self.everywhere = 0
        """Mask of the sites that have members."""
        for member in view.members:
            self.everywhere |= 1 << config.site_of(member)
        self.links: dict[int, Link] = {
            peer: build(config, view, me=me, peer=peer, streams=streams, datagrams=datagrams, now_us=now_us)
            for peer in view.neighbours(me)
        }
        branches = routing.branches(config, view.members, view.links, me)
        self.forwarder = Forwarder(branches, self.links, delta_us)
        self.order = SymmetricOrder(config.daemon_count, me, view.members, view.id, clock)
        self.hold = Hold(me)
        self.announcer = Announcer(delta_us, now_us, view.id)
        under_way_bytes = 4 * (settings.unstable_bytes + limits.FRAME_MAX_BYTES)
        self.reassembly = {
            member: Reassembly(max(limits.REASSEMBLY_MAX_BYTES, under_way_bytes)) for member in view.members
        }
        self.unreliable_reassembly = {
            member: Reassembly(limits.UNRELIABLE_REASSEMBLY_MAX_BYTES) for member in view.members
        }
        self.unreliable = {member: Unreliable() for member in view.members}
        self.incomplete: set[int] = set()
        """Sources with unreliable bundles of which parts are missing."""
