"""What a daemon of the core and an edge have in common towards the edges that are attached to them.

An edge that sends has its attachment sponsor sessions: these are sessions here to which nothing is delivered.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from antiphon import limits
from antiphon.core.feeds.server import FeedServer
from antiphon.core.groups.backlog import Band
from antiphon.core.groups.delivery import Frames
from antiphon.core.groups.requests import Requests
from antiphon.core.groups.sessions import Session, Sessions
from antiphon.errors import BadFrame, UsageError
from antiphon.types import PRIORITY_MAX, check_name
from antiphon.wire import edges, frames
from antiphon.wire.bundle import session_of

Bundles = Sequence[bytearray | memoryview]
_OF_FEED = (
    edges.Listen, edges.Unlisten, edges.Go, edges.Receivers, edges.Report, edges.Heard, edges.Lack,
)  # fmt: skip


class Attachment(Protocol):
    """The node to which edges are attached."""

    name: str
    sessions: Sessions
    requests: Requests
    frames: Frames


class EdgeDesk(ABC):
    """The edges at one node: what they say goes to the feed's server, or to the sessions that it sponsors."""

    def __init__(self, host: Attachment, server: FeedServer) -> None:
        self.server = server
        self._host = host

    def __contains__(self, number: int) -> bool:
        """Whether this session number is an edge's."""
        return number in self.server

    @abstractmethod
    def probe(self, request: edges.Probe) -> edges.Probed:
        """Who is here."""

    @abstractmethod
    def _begin(self, session: Session, request: edges.Sponsor) -> None:
        """A session is sponsored from now on."""

    @abstractmethod
    def _end(self, session: Session) -> None:
        """A sponsored session is over; what it has sent goes on."""

    @abstractmethod
    def _took(self, session: Session, bundles: Bundles) -> None:
        """Bundles of a sponsored session wait for their turn."""

    def tell(self, number: int, value: frames.ToEdge) -> None:
        """Say something to one edge."""
        self._host.frames.append(((number,), frames.encode_control(value), None))

    # What edges say ---------------------------------------------------------------------------------------

    def taken(
        self, request: edges.Attach, endings: Sequence[tuple[int, frames.Goodbye]], daemon: str,
        path: tuple[str, ...], now_us: int,
    ) -> tuple[int, edges.Attached] | frames.Refuse:  # fmt: skip
        """An edge is attached, or refused. A newer connection may take the place of an older one, which then
        stands in `endings`."""
        number = self._host.sessions.take_number()
        replaced = len(endings)
        answer = self.server.attach(number, request, daemon, path, now_us)
        for old, _ in endings[replaced:]:
            self._end_sponsored(old)
        return answer if isinstance(answer, frames.Refuse) else (number, answer)

    def control(self, number: int, value: object, now_us: int) -> None:
        """An edge has said something."""
        self.server.heard(number, now_us)
        if isinstance(value, edges.Sponsor):
            self._sponsor(number, value)
        elif isinstance(value, edges.Unsponsor):
            session = self._host.sessions.sponsored(number).get(value.session)
            if session is not None and not session.is_leaving:
                self._end(session)
        elif isinstance(value, edges.Probe):
            self.tell(number, self.probe(value))
        elif isinstance(value, _OF_FEED):
            self.server.control(number, value, now_us)
        elif not isinstance(value, edges.Beat):
            self.tell(number, frames.Problem("unexpected", f"{type(value).__name__} is not for edges"))

    def submit(self, number: int, bundles: Bundles, now_us: int) -> None:
        """Bundles of sponsored sessions have come; BadFrame for the first one that may not be sent."""
        sessions = self._host.sessions
        self.server.heard(number, now_us)
        sponsored = sessions.sponsored(number)
        at = 0
        while at < len(bundles):
            name = session_of(bundles[at])
            end = at + 1
            while end < len(bundles) and session_of(bundles[end]) == name:
                end += 1
            session = sponsored.get(name)
            if session is None or session.is_leaving:
                raise BadFrame("bundle: of no session that is sponsored here")
            self._host.requests.submit(session, bundles[at:end])
            self._took(session, bundles[at:end])
            if session.priority:
                sessions.sent(session, now_us)
            at = end

    def lost(self, number: int, now_us: int) -> None:
        """The connection of an edge is gone."""
        self.server.lost(number, now_us)
        self._end_sponsored(number)

    def backlog(self, number: int, waiting_bytes: int) -> Band:
        """So much output waits for an edge."""
        return self.server.backlog(number, waiting_bytes)

    def reads(self, number: int) -> bool:
        """Whether an edge's connection should be read."""
        sessions = self._host.sessions
        return not sessions.is_closed and sessions.input_room(number) > 0

    # Sponsored sessions -----------------------------------------------------------------------------------

    def _sponsor(self, number: int, request: edges.Sponsor) -> None:
        problem = self._problem(number, request)
        if problem:
            self.tell(number, frames.Problem("not-sponsored", problem, client=request.client))
            return
        rights = self._host.sessions.sponsor_rights.get(number)
        session = self._host.sessions.add(
            request.name, priority=request.priority, views=False, accepts=request.accepts,
            refusals=request.refusals, edge=request.edge, sponsor=number, rights=rights,
        )  # fmt: skip
        self._begin(session, request)

    def _problem(self, number: int, request: edges.Sponsor) -> str:
        """Why a session cannot be sponsored; empty if it can."""
        sessions, name = self._host.sessions, self._host.name
        try:
            check_name(request.name, "session", limits.SESSION_NAME_MAX_BYTES)
            check_name(request.edge, "edge", limits.DAEMON_NAME_MAX_BYTES)
        except UsageError as error:
            return str(error)
        if not 0 <= request.priority <= PRIORITY_MAX:
            return f"priority {request.priority} is not from 0 to {PRIORITY_MAX}"
        rights = sessions.sponsor_rights.get(number)
        if rights is not None and request.priority > rights.user.priority_max:
            return f"user {rights.user.name!r} may have priority {rights.user.priority_max} at most"
        if len(sessions) >= limits.SESSIONS_MAX:
            return f"{name} has its {limits.SESSIONS_MAX:,} sessions"
        if len(sessions.sponsored(number)) >= limits.EDGE_SPONSORED_MAX:
            return f"{name} sends for {limits.EDGE_SPONSORED_MAX:,} sessions of an edge at most"
        return ""

    def _end_sponsored(self, number: int) -> None:
        for session in list(self._host.sessions.sponsored(number).values()):
            if not session.is_leaving:
                self._end(session)
        self._host.sessions.sponsor_rights.pop(number, None)
