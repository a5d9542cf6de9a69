"""Ring: a reliable link among the daemons of one segment, on which the member that has the token may send.

Follows: Spread paper 3.2 (figure 3.3), thesis 4.1.
Deviations:
- a lost packet is retransmitted by the daemon that sent it, to the member that requested it; no member keeps
  copies of what others sent. A path that does not work at all is detected and ends the view
- a packet is requested only after the token that announced it has come round again, or after the usual
  reordering: data may travel behind its token
- when a round brought nothing, the token rests at the first member, which announces that (HELD) and passes it
  on as a sign of life or when a member requests it (HURRY); the paper's token never rests
- a token that does not come back is retransmitted, ever more slowly; a serial tells duplicates apart
- retransmitted packets do not count for flow control: a lost packet is retransmitted at most once in a round
Checked by: tests/paper/test_ring.py, the oracle's rules in the simulator.
"""

from collections.abc import Mapping

from antiphon import limits
from antiphon.core.effects import Outbox
from antiphon.core.links.link import LinkState, Signs
from antiphon.core.links.open_trains import OpenTrains
from antiphon.core.links.receiving import Reception
from antiphon.core.links.site import CheckData, CheckNumbering, Numbering, SiteLink, SiteMate
from antiphon.errors import BadPacket
from antiphon.wire import packet, token
from antiphon.wire.packet import Data, Loose, PacketKind
from antiphon.wire.token import NOBODY, Request, Token

RESEND_MIN_US = 5_000
"""A token that was passed on is not retransmitted sooner."""
HURRY_MIN_US = 1_000
"""Between two requests for the token, and after it was last seen: it may be on its way."""
ASK_AGAIN_MIN_US = 2_000
FAIRNESS_ROUNDS = 2
"""A rotation is expected to take up to so many times its average."""


class Ring(SiteLink):
    """One daemon's end of the ring of its segment."""

    protocol = "ring"

    def __init__(
        self,
        *,
        me: int,
        members: tuple[int, ...],
        digest: int,
        view: int,
        incarnations: Mapping[int, int],
        signs: Signs,
        suspect_us: int,
        packet_bytes: int,
        numbering: Numbering,
        check_numbering: CheckNumbering,
        datagrams: Outbox,
        now_us: int,
        check_data: CheckData | None = None,
    ) -> None:
        """`check_data` is not needed: data comes from nobody but its sender."""
        super().__init__(
            me=me, members=members, digest=digest, view=view, incarnations=incarnations,
            packet_bytes=packet_bytes, kinds=(PacketKind.DATA, PacketKind.UNRELIABLE, PacketKind.HELD),
            datagrams=datagrams,
        )  # fmt: skip
        self._numbering = numbering
        self._check_numbering = check_numbering
        self.counters |= {"tokens": 0, "tokens_resent": 0}
        self.mates: dict[int, SiteMate] = {member: SiteMate(now_us) for member in members if member != me}
        """A mate is alive if a packet came from it, or the token has passed it."""
        self.token: Token | None = None
        """The token, while this daemon has it."""
        self.site_sequence = 0
        self.site_lts = view
        """What the last token that was here announced of the segment's bundles."""
        self.site_aru = view
        """Every member has every bundle up to this lts."""
        self._next = members[(members.index(me) + 1) % len(members)]
        self._previous = members[members.index(me) - 1]
        self._keeper = members[0]
        self._round_interval_us = signs.round_us
        self._ask_us = signs.ask_us
        self._suspect_us = suspect_us
        # Data
        self.reception = Reception()
        self._open = OpenTrains()
        self._link_aru = 0  # every member has every packet up to this
        self._announced = 0  # the newest packet that the token of the round before announced
        self._sent_in_round = 0
        # The token
        self._serial = 0  # of the newest token that was here
        self._passed: bytes | None = None  # the packet with which it left, until it is known to have arrived
        self._resend_us: int | None = None
        self._resend_wait_us = RESEND_MIN_US
        self._left_us = now_us
        self._seen_us = now_us  # when the token was here, or was announced to rest elsewhere
        self._round_us = RESEND_MIN_US
        self._last_link_aru = 0
        self._last_site_aru = view
        self._given_aru = view  # the aru that we gave to the token when it was last here
        self._is_limiting = True  # no member had a smaller one
        self._is_wanted = False  # a member requested it
        self._is_resting = False
        self._has_rested = True  # since it was here: then its time does not measure a round
        self._go_us: int | None = None  # when a token that rests must go on
        self._hurry_us: int | None = None
        self._look_us = now_us + signs.round_us // 3  # when to look for silent mates
        if me == self._keeper:
            self.token = Token(0, 0, 0, NOBODY, NOBODY, 0, 0, view, view)
            self._is_wanted = True  # the first round shows every member that the others are alive

    # Questions --------------------------------------------------------------------------------------------

    @property
    def has_turn(self) -> bool:
        """Whether this daemon has the token, and with it the right to number bundles."""
        return self.token is not None

    @property
    def turns(self) -> int:
        """How often the token was here."""
        return self.counters["tokens"]

    @property
    def newest(self) -> tuple[int, int]:
        """What the last token that was here announced of the segment's bundles."""
        return self.site_sequence, self.site_lts

    @property
    def has_room(self) -> bool:
        """Whether more may be given to the ring now than already waits."""
        room_bytes = self._room() * self.packet_bytes
        return self._queue.waiting_bytes < room_bytes

    @property
    def in_flight_packets(self) -> int:
        """Packets of ours that not every member has acknowledged."""
        return self._open.packets

    @property
    def open_bytes(self) -> int:
        """Bytes kept for retransmission."""
        return self._open.size_bytes

    @property
    def open_limit_bytes(self) -> int:
        """The packets that may be unacknowledged, and the rest of a train."""
        return limits.RING_OPEN_PACKETS * self.packet_bytes + limits.TRAIN_MAX_BYTES

    @property
    def round_us(self) -> int:
        """How long the token takes for a round, while it does not rest."""
        return self._round_us

    @property
    def is_quiet(self) -> bool:
        """Nothing waits to be sent or retransmitted."""
        return not (self._queue or self._unreliable or self.reception.missing)

    # Events -----------------------------------------------------------------------------------------------

    def _receive_data(self, data: Data, now_us: int) -> list[Data]:
        if data.head.number + data.count - 1 > self._sequence_max:
            raise BadPacket("packet: number beyond what a ring sends")
        self.counters["packets_received"] += data.count
        news, duplicates = self.reception.take(data, now_us)
        self.counters["duplicates"] += duplicates
        return news

    def _receive_control(self, incoming: Loose, now_us: int) -> list[Data]:
        kind = incoming.head.kind
        if kind == PacketKind.TOKEN:
            if (incoming.head.sender, incoming.head.receiver) != (self._previous, self._me):
                raise BadPacket("token: not from the one before us")
            self._receive_token(token.parse_token(incoming.body), now_us)
        elif kind == PacketKind.HELD:
            if incoming.head.sender != self._keeper:
                raise BadPacket("held: not from the one that keeps the token")
            if self._serial < token.parse_held(incoming.body) <= self._serial + len(self.members):
                self._has_rested = True
                self._arrived(now_us)
                if self._hurry_us is not None:
                    self._hurry_us = now_us  # we want it, and it does not come by itself
        elif kind == PacketKind.HURRY:
            self._is_wanted = True
        return []

    def _receive_token(self, came: Token, now_us: int) -> None:
        """Ring_handle_token (figure 3.3), up to where new bundles get their numbers."""
        if came.serial <= self._serial:
            return  # retransmitted although it had arrived
        self._check(came, now_us)
        if came.serial > len(self.members):
            self._hear_all(now_us)
        self._serial = came.serial
        if not self._has_rested:
            self._round_us += (now_us - self._left_us - self._round_us) // 8
        self._has_rested = False
        self._arrived(now_us)
        self.counters["tokens"] += 1
        self.token = came
        self.site_sequence, self.site_lts = came.site_sequence, came.site_lts
        self.reception.announced(self._announced, now_us)
        self._announced = came.link_sequence
        self._answer(came, now_us)
        self._numbering.turn(self.site_sequence, self.site_lts)

    @property
    def _sequence_max(self) -> int:
        """The greatest number that a packet can have: open packets count from what all, and so we, have."""
        return self.reception.aru + limits.RING_OPEN_PACKETS + limits.RING_ROUND_PACKETS

    def _check(self, came: Token, now_us: int) -> None:
        """BadPacket for a token that our ring cannot have made: some of them would stop it for ever."""
        if came.link_sequence < self.reception.highest or came.site_sequence < self.site_sequence:
            raise BadPacket("token: counts backwards")
        if came.serial > self._serial + len(self.members) or came.link_sequence > self._sequence_max:
            raise BadPacket("token: counts too fast")
        self._check_numbering(came.site_sequence, came.site_lts, came.site_aru, now_us)
        if not self._sent_in_round <= came.flow <= limits.RING_ROUND_PACKETS:
            raise BadPacket("token: impossible count of packets")
        named = {came.link_modifier, came.site_modifier} - {NOBODY}
        if not named.issubset(self.members):
            raise BadPacket("token: names daemons of no ring of ours")

    def _arrived(self, now_us: int) -> None:
        """The token that we passed on has arrived."""
        self._seen_us = now_us
        self._passed = None
        self._resend_us = None

    def _hear_all(self, now_us: int) -> None:
        for mate in self.mates.values():
            mate.heard_us = now_us
            if mate.state is LinkState.CLOSED:
                mate.state = LinkState.OPEN
                mate.reason = "passed the token"

    # Retransmission -----------------------------------------------------------------------------------------

    def _answer(self, came: Token, now_us: int) -> None:
        """Retransmit the requested packets that were ours."""
        unanswered: list[Request] = []
        room = limits.RING_MEMBER_PACKETS
        for who, first, count in came.requests:
            mate = self.mates.get(who)
            if mate is None:
                continue  # our own: `_ask` requests what is still missing
            wanted = range(max(first, self._link_aru + 1), min(first + count, came.link_sequence + 1))
            found = [number for number in wanted[:room] if self._send_again(number, who, mate, now_us)]
            room -= len(found)
            if len(found) < len(wanted):
                unanswered.append((who, first, count))
        came.requests = tuple(unanswered)

    def _send_again(self, number: int, who: int, mate: SiteMate, now_us: int) -> bool:
        data = self._open.packet(number, self._counter)
        if data is None:
            return False
        since_us = mate.asked_us.setdefault(number, now_us)
        if now_us - since_us > self._suspect_us:
            self._fail(mate, "it asked for one packet for too long")
        self.counters["retransmitted"] += 1
        self._emit_alone(who, data)
        return True

    def _ask(self, going: Token, now_us: int) -> None:
        """Request the packets that should have come and have not."""
        retry_us = max(ASK_AGAIN_MIN_US, FAIRNESS_ROUNDS * self._round_us)
        ranges, asked_most = self.reception.ask(now_us, retry_us)
        room = limits.RING_REQUESTS_MAX - len(going.requests)
        if ranges and room > 0:
            self.counters["nacks_sent"] += 1
            going.requests += tuple((self._me, first, count) for first, count in ranges[:room])
        if asked_most > 1:
            oldest_us = self.reception.oldest_us()
            if oldest_us is not None and now_us - oldest_us > 2 * self._suspect_us:
                silent = min(self.mates.values(), key=lambda mate: mate.direct_us)
                self._fail(silent, "a packet did not come although it was asked for again and again")

    # Passing the token on ---------------------------------------------------------------------------------

    def _room(self) -> int:
        """How many packets this daemon may send with the token that it has."""
        in_hand = self.token
        if in_hand is None:
            return 0
        others = in_hand.flow - self._sent_in_round
        return max(
            0,
            min(
                limits.RING_MEMBER_PACKETS,
                limits.RING_ROUND_PACKETS - others,
                limits.RING_OPEN_PACKETS - (in_hand.link_sequence - self._link_aru),
            ),
        )

    def conclude(self, is_wanted: bool, now_us: int) -> None:
        """Everything that follows from the events so far is done: send, and pass the token on."""
        numbering = self._numbering
        self._conclude(
            number=numbering.issued,
            lts=numbering.clock,
            aru=numbering.aru,
            is_wanted=is_wanted,
            matters=numbering.highest_lts > numbering.own_aru,
            now_us=now_us,
        )
        numbering.is_turn = self.token is not None
        numbering.vouched(self.site_aru)

    def _conclude(
        self, *, number: int, lts: int, aru: int, is_wanted: bool, matters: bool, now_us: int
    ) -> None:
        """`number` is that of the segment's newest bundle and `lts` our clock, for when we have the token;
        `aru` is what we have everything up to, and `matters` whether another daemon waits for a higher
        aru of the segment."""
        is_higher = matters and aru > self._given_aru
        if self.token is None:
            if (
                is_wanted or self._queue or self._unreliable or self._is_asking(now_us)
                or (is_higher and self._is_limiting)
            ):  # fmt: skip
                self._hurry(now_us)
            else:
                self._hurry_us = None
            return
        self.site_sequence, self.site_lts = number, lts
        in_hand = self.token
        sent = self._send_data(in_hand, now_us)
        has_work = (
            self._me != self._keeper or self._is_wanted or is_wanted or is_higher or sent
            or self._queue or self._unreliable or in_hand.requests or in_hand.flow
            or (matters and in_hand.site_aru > self.site_aru) or self._is_asking(now_us)
        )  # fmt: skip
        if has_work or (self._go_us is not None and self._go_us <= now_us):
            self._pass(in_hand, sent, number, lts, aru, now_us)
        elif not self._is_resting:
            self._rest(now_us)

    def _is_asking(self, now_us: int) -> bool:
        return self.reception.ask_us is not None and self.reception.ask_us <= now_us

    def _send_data(self, in_hand: Token, now_us: int) -> int:
        """Send_Data: what waits, as far as the round allows; how many packets."""
        room = self._room()
        sent = 0
        while self._queue and sent < room:
            train = self._queue.train(in_hand.link_sequence + 1, room - sent)
            in_hand.link_sequence += train.count
            sent += train.count
            self.reception.accept(train.first, train.count, now_us)
            self._open.append(train)
            self._emit(train)
        while self._unreliable and sent < room:
            train = self._unreliable.train(0, 1)
            sent += 1
            self._emit(train)
        self.counters["packets_sent"] += sent
        return sent

    def _pass(self, going: Token, sent: int, number: int, lts: int, aru: int, now_us: int) -> None:
        going.serial += 1
        going.flow += sent - self._sent_in_round
        self._sent_in_round = sent
        self._ask(going, now_us)
        self._announced = max(self._announced, going.link_sequence)
        going.link_aru, going.link_modifier = self._agree(
            going.link_aru, going.link_modifier, self.reception.aru
        )
        going.site_aru, going.site_modifier = self._agree(going.site_aru, going.site_modifier, aru)
        going.site_sequence, going.site_lts = number, lts
        self._given_aru = aru
        self._is_limiting = going.site_aru == aru
        self._raise_arus(going)
        self._last_link_aru, self._last_site_aru = going.link_aru, going.site_aru
        self._serial = going.serial
        self.token = None
        self._is_wanted = self._is_resting = False
        self._go_us = self._hurry_us = None
        prefix = self._prefix(PacketKind.TOKEN, self._next)
        self._passed = packet.whole(prefix, token.encode_token(going), counter=self._counter.take())
        self._left_us = self._seen_us = now_us
        self._resend_wait_us = min(
            self._round_interval_us, max(RESEND_MIN_US, 2 * FAIRNESS_ROUNDS * self._round_us)
        )
        self._resend_us = now_us + self._resend_wait_us
        self._emit_alone(self._next, self._passed)

    def _agree(self, value: int, modifier: int, mine: int) -> tuple[int, int]:
        """An aru of the token and the member that lowered it last, with our own taken into account."""
        if mine < value:
            return mine, self._me
        if modifier == self._me:
            return mine, NOBODY
        return (mine, NOBODY) if modifier == NOBODY else (value, modifier)

    def _raise_arus(self, going: Token) -> None:
        """An aru that this round and the one before reached is that of every member."""
        self.site_aru = max(self.site_aru, min(going.site_aru, self._last_site_aru))
        link_aru = min(going.link_aru, self._last_link_aru)
        if link_aru <= self._link_aru:
            return
        self._link_aru = link_aru
        self._open.acknowledged(link_aru)
        for mate in self.mates.values():
            if mate.asked_us:
                mate.asked_us = {
                    number: since_us for number, since_us in mate.asked_us.items() if number > link_aru
                }

    def _rest(self, now_us: int) -> None:
        """There is nothing to do: let the token rest here, and announce that."""
        self._is_resting = self._has_rested = True
        self._go_us = now_us + self._round_interval_us
        assert self.token is not None
        body = token.encode_held(self.token.serial + 1)
        data = packet.whole(self._prefixes[PacketKind.HELD], body, counter=self._counter.take())
        self._emit_to_all(data)

    def _hurry(self, now_us: int) -> None:
        """We want the token: unless it is on its way, request it from the member at which it rests."""
        if self._me == self._keeper:
            return
        if self._hurry_us is None and self._has_rested:
            self._hurry_us = now_us  # it is known to rest
        elif self._hurry_us is None:
            self._hurry_us = max(now_us, self._seen_us + max(HURRY_MIN_US, FAIRNESS_ROUNDS * self._round_us))
        if self._hurry_us <= now_us:
            self._hurry_us = now_us + max(HURRY_MIN_US, 2 * FAIRNESS_ROUNDS * self._round_us)
            prefix = self._prefix(PacketKind.HURRY, self._keeper)
            self._emit_alone(self._keeper, packet.whole(prefix, counter=self._counter.take()))

    # Time -------------------------------------------------------------------------------------------------

    def timeout(self, now_us: int) -> None:
        """Do whatever is due; what concerns the token, if it is here, `conclude` does."""
        if self._resend_us is not None and self._resend_us <= now_us:
            self._send_token_again(now_us)
        if self._look_us <= now_us:
            self._look_for_the_silent(now_us)

    def _send_token_again(self, now_us: int) -> None:
        assert self._passed is not None
        self.counters["tokens_resent"] += 1
        self._has_rested = True  # a round with a lost token does not measure a round
        self._emit_alone(self._next, packet.again(self._passed, self._counter.take()))
        self._resend_wait_us = min(self._round_interval_us, self._resend_wait_us * 3 // 2)
        self._resend_us = now_us + self._resend_wait_us

    def _look_for_the_silent(self, now_us: int) -> None:
        """The token shows that every member is alive; when it does not come, send each a hello."""
        overdue_us = self._seen_us + self._round_interval_us + self._ask_us
        wait_us = self._ask_us
        if now_us < overdue_us:
            if self._serial > len(self.members):
                self._look_us = overdue_us
                return
            wait_us = self._round_interval_us // 3  # the token has not been at every member yet
        self._look_us = now_us + wait_us
        for number, mate in self.mates.items():
            if mate.heard_us <= now_us - wait_us:
                self._question(number, mate, now_us)

    def next_deadline_us(self) -> int:
        """When `timeout` or `conclude` has something to do."""
        deadline_us = self._look_us
        for due_us in (self._resend_us, self._go_us, self._hurry_us):
            if due_us is not None and due_us < deadline_us:
                deadline_us = due_us
        due_us = self.reception.ask_us
        if due_us is not None and due_us < deadline_us and self._hurry_us is None:
            is_coming = self._me == self._keeper and self.token is None  # then it can ask
            deadline_us = deadline_us if is_coming else due_us
        return deadline_us
