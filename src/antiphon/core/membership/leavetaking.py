"""What a daemon does when a member of its view leaves by its own word, or when it leaves (see `leaving`)."""

from abc import ABC, abstractmethod

from antiphon.config import Config
from antiphon.core.membership.leaving import Leaving
from antiphon.core.membership.pace import Pace
from antiphon.core.membership.peers import Peer
from antiphon.core.membership.rounds import Reason, Rounds
from antiphon.core.membership.states import Host
from antiphon.core.overlay.topology import missing_links
from antiphon.core.view import DaemonView
from antiphon.wire.membership import Beat


class Leavetaking(ABC):
    """A part of the membership of one daemon, which is in `daemons`."""

    view: DaemonView
    is_active: bool
    forming: DaemonView | None
    rounds: Rounds
    timing: Pace
    peers: dict[int, Peer]
    _config: Config
    _host: Host
    _missed: frozenset[int]
    _round: int

    def __init__(self, me: int) -> None:
        self.leaving = Leaving(me)
        """Who leaves by its own word."""
        self._me = me

    @property
    @abstractmethod
    def company(self) -> DaemonView | None:
        """The view over whose links this daemon works."""

    @abstractmethod
    def _gather(self, reason: Reason, peer: int | None, detail: str, now_us: int) -> None: ...

    @abstractmethod
    def _lose(self, reason: Reason, peer: int | None, detail: str, now_us: int) -> None: ...

    @abstractmethod
    def _stop(self, now_us: int) -> None: ...

    @abstractmethod
    def _tell(self, now_us: int) -> None: ...

    @abstractmethod
    def _probe(self, now_us: int) -> None: ...

    @abstractmethod
    def _name(self, number: int) -> str: ...

    @abstractmethod
    def _inform(self, number: int, now_us: int) -> None:
        """Tell another daemon, unasked, where this one stands."""

    # Others leave ---------------------------------------------------------------------------------------

    def _join_search(self, peer: Peer, beat: Beat, now_us: int) -> None:
        """A member of the view that works gathers: so do we."""
        leaver = self.leaving.newest(beat.stations, self.view)
        if leaver is None:
            self._gather(Reason.ASKED, peer.number, f"{self._name(peer.number)} gathers", now_us)
        else:
            detail = f"{self._name(leaver)} leaves by its own word"
            self._gather(Reason.LEAVING, leaver, detail, now_us)

    def _part_with(self, leaver: int, now_us: int) -> None:
        """A daemon says that it leaves. While the view works, the paths to those are tried with whom there
        must be links when it is gone."""
        self.rounds.add(Reason.LEAVING, leaver, f"{self._name(leaver)} leaves by its own word")
        if not self.is_active or self.leaving.is_told:
            return
        self._find_missed(now_us)
        for number in self._missed:
            self.peers[number].ask_soon(self.timing.join_us, now_us)
        self._probe(now_us)

    def _find_missed(self, now_us: int) -> None:
        """Find the members to which there should be a link and is none, when those who leave are gone."""
        leavers = self.leaving.of(self.view, now_us)
        stay = [member for member in self.view.members if member not in leavers]
        self._missed = missing_links(self._config, stay, self.view.neighbours(self._me), self._me)

    def _lose_member(self, peer: Peer, incarnation: int, now_us: int) -> None:
        """A member works in our view no longer. If we are about to leave that, it may."""
        name = self._name(peer.number)
        if self._is_on_leave:
            self.leaving.went_on(peer.number)
        elif self.leaving.is_leaving(peer.number, incarnation, now_us):
            self._lose(Reason.LEAVING, peer.number, f"{name} has left by its own word", now_us)
        else:
            self._lose(Reason.ABANDONED, peer.number, f"{name} has given up the view", now_us)

    def _release(self, now_us: int) -> None:
        """We have gone on to another view: tell those who leave the old one and wait for that."""
        for number in sorted(self.leaving.of(self.view, now_us) & self.peers.keys()):
            self._inform(number, now_us)

    # This daemon leaves ---------------------------------------------------------------------------------

    @property
    def _is_on_leave(self) -> bool:
        """Whether this daemon leaves the view that works."""
        return self.leaving.is_told and self.is_active

    def leave(self, now_us: int) -> None:
        """Say that this daemon leaves, and let the others go on without it. If it has no view that works, it
        has nothing to leave; those who look for one are told not to count on it."""
        self.leaving.tell()
        if self.is_active:
            self._round = self._host.tick()
            self._gather(Reason.LEAVING, self._me, "this daemon is told to stop", now_us)
        elif self.forming is None:
            self._tell(now_us)

    def part(self, now_us: int) -> None:
        """The last word of a daemon that leaves, to neighbours that still count on it."""
        company = self.company
        if company is None:
            return
        if self.forming is not None:
            self.forming = None
            self._host.give_up()
        self._stop(now_us)
        for number in company.neighbours(self._me):
            self._inform(number, now_us)
