"""With whom a daemon exchanges what it gathers."""

from collections.abc import Callable

from antiphon.core.membership.gathering import Gathering
from antiphon.core.membership.peers import Peer
from antiphon.core.view import DaemonView


def is_friend(
    peer: Peer,
    me: int,
    company: DaemonView | None,
    representative: int,
    gathering: Gathering,
    hears: Callable[[int], bool],
) -> bool:
    """Whether what is gathered is exchanged with a peer. In a working view: with neighbours. Otherwise those
    who speak for others talk to each other and to those they speak for, unless the only way leads past them.
    """
    if company is not None and peer.number in company.members:
        return peer.number in company.neighbours(me)  # they pass it on
    speaker = peer.representative
    if representative == me:
        return speaker in (peer.number, me) or not hears(speaker)
    if peer.number == representative:
        return True
    if gathering.vouches(representative, peer.number):
        return False
    return speaker == peer.number or not gathering.vouches(representative, speaker)
