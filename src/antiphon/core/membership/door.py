"""Beats and proposals as they come in: read, found plausible, and handed to the membership, or refused."""

from antiphon.config import Config
from antiphon.core.gate import Gate
from antiphon.core.membership.credence import DOUBTS, Credence
from antiphon.core.membership.daemons import DaemonMembership
from antiphon.core.ordering.stability import daemon_of
from antiphon.errors import BadPacket
from antiphon.wire import membership as wire
from antiphon.wire.packet import Loose, PacketKind


class Door:
    """What stands between a daemon's membership and the network."""

    def __init__(self, membership: DaemonMembership, credence: Credence, config: Config, gate: Gate) -> None:
        self._membership = membership
        self._credence = credence
        self._config = config
        self._daemons = config.daemon_count
        self._gate = gate

    def receive(self, incoming: Loose, clock: int, now_us: int) -> None:
        """A beat or a proposal of a neighbour; `clock` is that of the installed view. What is refused is
        counted; a sender that may still be right is asked."""
        head = incoming.head
        try:
            if head.kind == PacketKind.BEAT:
                beat = wire.parse_beat(incoming.body, self._daemons)
                self._credence.hear(self._membership.peers[head.sender], head.incarnation, beat, now_us)
                self._membership.hear(head.sender, head.incarnation, beat, now_us)
            else:
                proposal = wire.parse_proposal(incoming.body, self._daemons)
                if not all(self._config.are_neighbours(*pair) for pair in proposal.pairs):
                    raise BadPacket("proposal: links that the configuration does not have")
                if daemon_of(proposal.id) != proposal.members[0]:
                    raise BadPacket("proposal: its identifier is no stamp of its smallest member")
                self._credence.check_proposal(proposal.id, clock, now_us)
                self._membership.receive_proposal(head.sender, proposal, now_us)
        except BadPacket as error:
            self._gate.refuse_contents(error, head, now_us)
            if error.reason in DOUBTS:
                echo_us = self._credence.question(head.sender, now_us)
                if echo_us is not None:
                    self._membership.ask(head.sender, echo_us, now_us)
