"""Mutants of the planned stop: how a daemon takes leave, and how the others go on without it."""

from antiphon.core.departure import Departure
from antiphon.core.membership.daemons import DaemonMembership
from antiphon.core.membership.leaving import Leaving
from antiphon.core.membership.peers import Peer
from antiphon.core.membership.rounds import Reason
from antiphon.core.membership.search import Search
from antiphon.core.view import DaemonView
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.wire.membership import Beat


def _sessions_not_ended(original: Original) -> Original:
    return lambda departure: None


def _waits_for_nobody(original: Original) -> Original:
    def waits_for(leaving: Leaving, view: DaemonView, now_us: int) -> frozenset[int]:
        return frozenset()

    return waits_for


def _word_ends_the_view(original: Original) -> Original:
    """The view ends as if the daemon had been lost by silence."""

    def join_search(membership: DaemonMembership, peer: Peer, beat: Beat, now_us: int) -> None:
        leaver = membership.leaving.newest(beat.stations, membership.standing.view)
        if leaver is None:
            original(membership, peer, beat, now_us)
        else:
            membership.loss.lose(Reason.LEAVING, leaver, "a member leaves", now_us)

    return join_search


def _links_not_tried(original: Original) -> Original:
    return lambda search, leaver, now_us: None


def _word_for_every_process(original: Original) -> Original:
    def is_leaving(leaving: Leaving, daemon: int, incarnation: int, now_us: int) -> bool:
        return daemon in leaving._announced

    return is_leaving


STOPS: tuple[Mutant, ...] = (
    Mutant(
        "sessions not ended", "a daemon that stops leaves the view while its clients are members of groups",
        frozenset(("stop",)), Departure, "_end_sessions", _sessions_not_ended, "stops",
    ),
    Mutant(
        "leaver waits for nobody", "a daemon that stops ends before the others have gone on",
        frozenset(("stop",)), Leaving, "waits_for", _waits_for_nobody, "stops",
    ),
    Mutant(
        "word ends the view", "the word of a daemon that leaves stops the view of the others at once",
        frozenset(("stop",)), DaemonMembership, "_join_search", _word_ends_the_view, "stops",
    ),
    Mutant(
        "links not tried", "paths that the view without a leaver needs are not tried before it is proposed",
        frozenset(("stop",)), Search, "_part_with", _links_not_tried, "stops", shown_by=1,
    ),
    Mutant(
        "word for every process", "a daemon that has left is not taken in again",
        frozenset(("2.16",)), Leaving, "is_leaving", _word_for_every_process, "stops",
        shown_by=1,
    ),
)  # fmt: skip
