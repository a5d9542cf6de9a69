"""How what the clients of an edge send gets to the core: in their names, by the attachment.

A session that sends is *sponsored*: the attachment has a session of its own with the client's private name,
and what the client sends waits here until that is there. When the attachment is lost, what waits here goes to
the next one. What was given to the lost one is never sent again: if it does not come in the feed for
EDGE_UNSURE_US either, the client is told that nobody knows what became of it.

Edges behind this one are served in the same way: each session that they have sponsored is one here, too.

Bounds: the queue of a session as in a daemon; all queues together EDGE_QUEUE_BYTES, beyond which nothing more
is read; EDGE_SPONSORED_MAX sessions that send, beyond which the next ones are told, and wait until others
have ended.

Follows: InterGroup 6 (a sponsor lets a sender in, and the sender group is left by a message of one's own).
Deviations: an edge's client never becomes a member of what others wait for; it sends by its sponsor for good.
"""

from collections import deque
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from antiphon import limits
from antiphon.core.edge.account import Account
from antiphon.core.edge.connection import Connection
from antiphon.core.groups.requests import denial_of
from antiphon.core.groups.sessions import Denial, Pending, Session
from antiphon.errors import BadFrame
from antiphon.service import UNRELIABLE
from antiphon.wire import bundle as bundles
from antiphon.wire import edges, frames
from antiphon.wire.bundle import Header

if TYPE_CHECKING:
    from antiphon.core.edge.node import EdgeNode

Identity = tuple[int, int, int]
"""Daemon, incarnation and session as receivers know a sender."""
Told = frames.Accepted | frames.NotSent | frames.Problem | frames.Unsure
WINDOW_BYTES = limits.SESSION_INPUT_MAX_BYTES - limits.BUNDLE_TARGET_BYTES
"""What an attachment is given at most of one session before it has accepted it, but for a single larger
bundle. So its queue for that session never fills, which would stop the whole edge if the session has to wait
there."""
ALIASES_MAX = 8
"""How a session was known at so many attachments is remembered."""


class Doubt(Struct):
    """What was given to an attachment that is lost."""

    account: Account
    until_us: int


class Alias(Struct):
    """How receivers know, or knew, a session that sends."""

    sender: "Sender"
    account: Account
    """At the attachment where it was known so."""
    before: int
    """What it numbers as 1 there is so many later in the account."""


class Sender:
    """A session that sends, of this edge or of one behind it."""

    def __init__(self, session: Session, edge: str, client: int) -> None:
        self.session = session
        self.edge = edge
        """Where its client is."""
        self.is_behind = bool(session.sponsored_number)
        """Whether it is at an edge behind this one."""
        self.client = client
        """What that edge calls it."""
        self.account = Account()
        self.sponsored: edges.Sponsored | None = None
        self.is_asked = False
        self.is_held = False
        """Whether so much is open at the attachment that it gets no more for now."""
        self.again_us = 0
        """When the attachment is asked again that did not sponsor it."""
        self.is_told = False
        """Whether it was told why it waits."""
        self.aliases: deque[Identity] = deque()
        self.doubts: deque[Doubt] = deque()
        """Oldest first."""
        self.accepted = 0
        """The number that is to be told as accepted when no doubt stands before it."""

    @property
    def bearing(self) -> tuple[str, str]:
        """What only one session at an attachment may be called."""
        return self.session.name, self.edge


class Sending:
    """The queues between the sessions of an edge and its attachment."""

    def __init__(self, node: "EdgeNode") -> None:
        self.unsure = 0
        """Messages whose fate is not known, in all."""
        self._node = node
        self._sessions = node.sessions
        self._senders: dict[int, Sender] = {}  # by the number of the session here
        self._by_number: dict[int, Sender] = {}  # by the attachment's number
        self._aliases: dict[Identity, Alias] = {}
        self._bearers: dict[tuple[str, str], Sender] = {}  # those for whom the attachment was asked
        self._doubting: dict[int, Sender] = {}  # those with doubts
        self._refusals: dict[int, Sender] = {}  # those to ask for again
        self._hoping: dict[int, Sender] = {}  # those behind that cannot be sponsored yet
        self._is_cut_short = False

    @property
    def asked(self) -> int:
        """How many sessions the attachment sponsors, or is asked to."""
        return len(self._bearers)

    @property
    def reads(self) -> bool:
        """Whether there is room for more."""
        return self._sessions.input_bytes < limits.EDGE_QUEUE_BYTES

    @property
    def is_idle(self) -> bool:
        """Whether everything that sessions have sent is known to be accepted."""
        return not self._sessions.waiting and not any(sender.account for sender in self._senders.values())

    def add(self, session: Session, edge: str, client: int) -> Sender:
        """A session is going to send; at an edge behind this one, if it has another name."""
        sender = self._senders[session.number] = Sender(session, edge, client)
        return sender

    # Taking turns -----------------------------------------------------------------------------------------

    def flow(self) -> None:
        """Write what may be written now."""
        if self._is_cut_short:
            self._is_cut_short = False
            self._sessions.unpark()
        while (turn := self._sessions.take(0, self._must_wait)) is not None:
            session, pending = turn
            if pending.event is None:
                self._send(self._senders[session.number], pending)
            elif pending.event.kind == "disconnect":
                self._end(session)
            else:
                if pending.denial is not None and not session.is_leaving:
                    self._deny(session, pending, pending.denial)
                session.sequence += pending.header.message_count

    def _deny(self, session: Session, pending: Pending, denial: Denial) -> None:
        """Tell a session what is not sent because the access list does not allow it."""
        told = denial_of(session, pending, denial)
        if told is not None:
            self._node.tell(session.speaker, told)

    def _must_wait(self, session: Session, pending: Pending) -> bool:
        sender = self._senders.get(session.number)
        if pending.event is not None:
            is_pending = sender is not None and sender.is_asked and sender.sponsored is None
            return pending.event.kind == "disconnect" and is_pending
        main = self._node.links.main
        if main is None:
            return True
        if sender is None:
            sender = self.add(session, self._node.name, session.number)
        if sender.sponsored is None:
            self._ask(sender, main)
            return True
        open_bundles = sender.account.open
        if open_bundles and open_bundles.size_bytes + pending.size_bytes > WINDOW_BYTES:
            sender.is_held = True  # until the attachment answers
            return True
        if main.room_bytes > 0:
            return False
        # The driver has not had its turn; or it has, and tells when less waits.
        self._is_cut_short = self._is_cut_short or main.waiting_bytes < limits.EDGE_OUTPUT_BYTES
        return True

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits only for the driver's turn."""
        return not self._is_cut_short

    def sponsor(self, sender: Sender) -> None:
        """An edge behind wants to be told under which numbers a session sends."""
        main = self._node.links.main
        if main is not None:
            self._ask(sender, main)

    def attached(self) -> None:
        """There is an attachment: sessions behind are sponsored anew, since their edges wait for that."""
        for sender in self._senders.values():
            if sender.is_behind:
                self.sponsor(sender)
        self._sessions.unpark()

    def _ask(self, sender: Sender, main: Connection) -> None:
        """Ask the attachment to sponsor a session, unless one of its name has not ended there."""
        if sender.is_asked:
            return
        if sender.is_behind:
            self._hoping[sender.session.number] = sender
        if sender.bearing in self._bearers or sender.again_us > self._node.now_us:
            return
        if len(self._bearers) >= limits.EDGE_SPONSORED_MAX:
            most = f"{limits.EDGE_SPONSORED_MAX:,} sessions of this edge send already: this one waits"
            self._tell_waiting(sender, "too-many-senders", most)
            return
        sender.is_asked = True
        self._hoping.pop(sender.session.number, None)
        self._bearers[sender.bearing] = sender
        session = sender.session
        asked = edges.Sponsor(
            session.number, session.name, sender.edge, session.priority, True, session.refusals
        )
        self._node.links.tell(main, asked, self._node.now_us)

    def _tell_waiting(self, sender: Sender, code: str, reason: str) -> None:
        """Tell a client once why it waits."""
        if not sender.is_told:
            sender.is_told = True
            self._tell(sender, frames.Problem(code, reason))

    def _refused(self, answer: frames.Problem) -> None:
        """The attachment does not sponsor a session: it is asked again after a while."""
        sender = self._senders.get(answer.client)
        if sender is None or not sender.is_asked or sender.sponsored is not None:
            raise BadFrame("not sponsored: nobody asked for that")
        self._leave_attachment(sender)
        sender.again_us = self._node.now_us + limits.EDGE_DIAL_MOST_US
        self._refusals[sender.session.number] = sender
        self._tell_waiting(sender, answer.code, answer.reason)
        self._sessions.unpark()  # its end waited for the answer, if it is over

    def _send(self, sender: Sender, pending: Pending) -> None:
        main, sponsored, session = self._node.links.main, sender.sponsored, sender.session
        assert main is not None and sponsored is not None
        header = pending.header
        is_promised = header.service is not UNRELIABLE
        sender.account.sent(session.sequence, header.message_count, is_promised, len(pending.bundle))
        session.sequence += header.message_count
        bundles.name_session(pending.bundle, sponsored.session)
        self._node.links.write(main, pending.bundle, self._node.now_us)

    def _end(self, session: Session) -> None:
        """Everything that a session sent is on its way: the attachment need not sponsor it any more."""
        sender = self._senders.pop(session.number, None)
        if sender is None:
            return
        self._doubting.pop(session.number, None)
        for identity in sender.aliases:
            self._aliases.pop(identity, None)
        main = self._node.links.main
        if sender.sponsored is not None and main is not None:
            ended = edges.Unsponsor(sender.sponsored.session)
            self._node.links.tell(main, ended, self._node.now_us)
        self._leave_attachment(sender)
        self._hoping.pop(session.number, None)
        self._refusals.pop(session.number, None)
        # One of the same name may wait, or one too many.
        for hoping in list(self._hoping.values()):
            self.sponsor(hoping)
        if self._sessions.has_parked:
            self._sessions.unpark()

    def _leave_attachment(self, sender: Sender) -> None:
        if self._bearers.get(sender.bearing) is sender:
            del self._bearers[sender.bearing]
        if sender.sponsored is not None:
            self._by_number.pop(sender.sponsored.session, None)
        sender.sponsored, sender.is_asked, sender.is_held = None, False, False

    # The attachment's answers -----------------------------------------------------------------------------

    def sponsored(self, answer: edges.Sponsored) -> None:
        """The attachment sponsors a session."""
        sender = self._senders.get(answer.client)
        known = self._by_number.get(answer.session)
        if sender is None or not sender.is_asked or (known is not None and known is not sender):
            raise BadFrame("sponsored: nobody asked for that")
        if not (0 < answer.session < 1 << 32 and 0 <= answer.before < sender.account.next):
            raise BadFrame("sponsored: an impossible number")
        if sender.sponsored is not None and sender.sponsored.session != answer.session:
            raise BadFrame("sponsored: under another number than before")
        sender.sponsored = answer
        self._by_number[answer.session] = sender
        self._know(sender, answer)
        if sender.is_behind:
            self._tell_sponsored(sender)
        self._sessions.unpark()

    def _know(self, sender: Sender, answer: edges.Sponsored) -> None:
        """Receivers know a session so from here on; what it sent before may come later."""
        identity = identity_of(answer)
        if identity not in self._aliases:
            sender.aliases.append(identity)
        self._aliases[identity] = Alias(sender, sender.account, answer.before)
        if len(sender.aliases) > ALIASES_MAX:
            self._aliases.pop(sender.aliases.popleft(), None)

    def _tell_sponsored(self, sender: Sender) -> None:
        """Tell an edge behind under which numbers its client sends."""
        sponsored, session = sender.sponsored, sender.session
        assert sponsored is not None
        daemon, incarnation, known_as = identity_of(sponsored)
        before = session.sequence - sender.account.next + sponsored.before
        told = edges.Sponsored(sender.client, session.number, daemon, incarnation, known_as, before)
        self._node.tell(session.speaker, told)

    def accepted(self, answer: frames.Accepted) -> None:
        """The attachment has accepted what a session sent."""
        sender = self._by_number.get(answer.session)
        if sender is None:
            return
        first_open = sender.account.accepted(answer.sequence)
        self._release(sender)
        last = (sender.session.sequence if first_open is None else first_open) - 1
        sender.accepted = max(sender.accepted, last)
        self._tell_accepted(sender)

    def _tell_accepted(self, sender: Sender) -> None:
        """Unless something before it is in doubt: a client would take that for accepted, too."""
        if sender.accepted and not sender.doubts:
            if sender.session.accepts:
                self._tell(sender, frames.Accepted(sender.accepted))
            sender.accepted = 0

    def not_sent(self, answer: frames.NotSent) -> None:
        """The attachment has not sent something: a group has no quorum, or this edge may not."""
        sender = self._by_number.get(answer.session)
        if sender is not None:
            for first, count in sender.account.refused(answer.sequence, answer.count):
                self._tell(sender, frames.NotSent(answer.group, first, count, 0, answer.reason))
            self._release(sender)

    def problem(self, answer: frames.Problem) -> None:
        """The attachment could not do something for a session."""
        if answer.client:
            self._refused(answer)
            return
        sender = self._by_number.get(answer.session)
        if sender is not None:
            self._tell(sender, frames.Problem(answer.code, answer.reason))

    def doubted(self, answer: frames.Unsure) -> None:
        """The attachment is an edge, which does not know what became of something."""
        sender = self._by_number.get(answer.session)
        if sender is not None:
            found = sender.account.refused(answer.sequence, answer.count)
            self._tell_unsure(sender, found)
            self._release(sender)

    def _release(self, sender: Sender) -> None:
        """The attachment has answered for some of what it was given."""
        if sender.is_held:
            sender.is_held = False
            self._sessions.unpark()

    def sender_of(self, header: Header) -> Session | None:
        """The session here that has sent a bundle."""
        alias = self._aliases.get((header.daemon, header.incarnation, header.session))
        return None if alias is None or alias.sender.is_behind else alias.sender.session

    def saw(self, header: Header) -> Session | None:
        """A bundle came in the feed: the session here that sent it."""
        alias = self._aliases.get((header.daemon, header.incarnation, header.session))
        if alias is None:
            return None
        sender = alias.sender
        alias.account.came_back(alias.before + header.sequence, header.message_count)
        if sender.doubts:
            self._resolve(sender)
        return None if sender.is_behind else sender.session

    # When the attachment is lost --------------------------------------------------------------------------

    def detached(self, now_us: int) -> None:
        """The attachment is lost: nothing more is known of what it was given."""
        for sender in list(self._senders.values()):
            sponsored, account = sender.sponsored, sender.account
            self._leave_attachment(sender)
            sender.again_us = 0
            if sponsored is not None and account:
                sender.doubts.append(Doubt(account, now_us + limits.EDGE_UNSURE_US))
                self._doubting[sender.session.number] = sender
            if sponsored is not None:
                sender.account = Account()
            self._resolve(sender)
        self._refusals.clear()
        self._sessions.unpark()

    def _resolve(self, sender: Sender, now_us: int = 0) -> None:
        """Tell what is known, or will not be known, of what a session gave to attachments that are lost.

        What came back in the feed counts as accepted: the daemon that sent it may have crashed before others
        had it, but then it has its place at this edge alone, and no other word about it will ever come.
        """
        while sender.doubts:
            doubt = sender.doubts[0]
            doubtful = doubt.account.doubtful()
            if doubtful and now_us < doubt.until_us:
                return
            sender.doubts.popleft()
            seen = doubt.account.seen_here
            # First what is before: a client takes that for accepted, too, unless it is told.
            self._tell_unsure(sender, [one for one in doubtful if one[0] < seen])
            if seen and sender.session.accepts:
                self._tell(sender, frames.Accepted(seen))
            self._tell_unsure(sender, [one for one in doubtful if one[0] > seen])
        self._doubting.pop(sender.session.number, None)
        self._tell_accepted(sender)

    def _tell_unsure(self, sender: Sender, doubtful: list[tuple[int, int]]) -> None:
        for first, count in doubtful:
            self.unsure += count
            self._tell(sender, frames.Unsure(first, count))

    def timeout(self, now_us: int) -> None:
        """Wait no longer for what does not come back; ask again for those who were not sponsored."""
        for sender in list(self._doubting.values()):
            if sender.doubts[0].until_us <= now_us:
                self._resolve(sender, now_us)
        due = [sender for sender in self._refusals.values() if sender.again_us <= now_us]
        for sender in due:
            del self._refusals[sender.session.number]
            if sender.is_behind:
                self.sponsor(sender)
        if due:
            self._sessions.unpark()

    def next_deadline_us(self) -> int | None:
        """When a wait for something ends."""
        until_us = [sender.doubts[0].until_us for sender in self._doubting.values()]
        until_us += [sender.again_us for sender in self._refusals.values()]
        return min(until_us, default=None)

    def _tell(self, sender: Sender, value: Told) -> None:
        """Tell a client, or the edge behind that it is at."""
        session = sender.session
        if sender.is_behind:
            value = structs.replace(value, session=session.number)
        if not session.is_leaving:
            self._node.tell(session.speaker, value)


def identity_of(sponsored: edges.Sponsored) -> Identity:
    """How receivers know what a sponsored session sends."""
    return sponsored.daemon, sponsored.incarnation, sponsored.known_as or sponsored.session
