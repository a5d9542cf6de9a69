"""Who exchanges with whom what is gathered: a few daemons speak for the others.

Follows: thesis 6.1.5 (representatives). Deviation: where the only way leads past them, others speak, too.
"""

from collections.abc import Callable

from antiphon.core.membership.peers import Peer
from antiphon.core.membership.view import DaemonView


def is_friend(
    peer: Peer,
    company: DaemonView | None,
    me: int,
    representative: int,
    vouches: Callable[[int, int], bool],
    hears: Callable[[int], bool],
) -> bool:
    """Whether `me` exchanges what is gathered with a peer. In a working view: with neighbours. Otherwise
    those who speak for others talk to each other and to those they speak for, unless the only way leads past
    them.

    `vouches` says whether the first daemon tells that it works with the second, `hears` whether `me` works
    with one itself.
    """
    if company is not None and peer.number in company.members:
        return peer.number in company.neighbours(me)  # they pass it on
    speaker = peer.representative
    if representative == me:
        return speaker in (peer.number, me) or not hears(speaker)
    if peer.number == representative:
        return True
    if vouches(representative, peer.number):
        return False
    return speaker == peer.number or not vouches(representative, speaker)
