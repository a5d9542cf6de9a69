"""Token site: a reliable link among the daemons of one segment, on which acknowledgements pass the token.

Any member sends its packets at once, to all. One member is the *token site*: it alone gives numbers to
bundles. With an acknowledgement (SITE_ACK), which goes to all, it tells what was ordered and what it has, and
names the next token site. Nobody accepts the token before it has every packet that the acknowledgement counts
as sent. So when all members have passed the token on since an acknowledgement, all have what it counts.

Follows: RMP 4.1, 4.2 and 4.6, after Chang and Maxemchuk.
Deviations:
- RMP's token site orders the packets of others. Extended Virtual Synchrony does not allow that: a token site
  that delivers a bundle in its place and is cut off, before the bundle's sender has heard of the place,
  leaves a sender that must deliver the bundle in the same view and in the same place, and does not know it.
  Here the token site orders its own bundles, and the token goes straight to the member that has some: it asks
  for it (HURRY), or stands in the list of those who did. Everything that needs no number goes out at once:
  bundles of other sites, skips, updates, what may be lost
- so an acknowledgement names no bundles. It tells the number up to which bundles are ordered, and the bundles
  carry theirs; it is cumulative, and one that was lost is not asked for
- the token rests where it was last needed: who sends again and again does not wait for it at all
- a null acknowledgement is sent 5 ms after the last bundle where RMP waits for a second, and at once if a
  safe message waits for it; then the token goes round once. Such a round now and then is the sign of life
- a member tells its aru with the token, because stability counts the bundles of other sites, too
- fault recovery (4.4) is that of the daemon membership: a token site that is silent is found as any mate is
Checked by: tests/paper/test_token_site.py, the oracle's rules in the simulator.
"""

from collections.abc import Mapping

from antiphon import limits
from antiphon.core.effects import Outbox
from antiphon.core.links.kept import Kept
from antiphon.core.links.link import LinkState, Signs
from antiphon.core.links.open_trains import OpenTrains
from antiphon.core.links.receiving import Reception
from antiphon.core.links.site import CheckData, CheckNumbering, Numbering, SiteLink, SiteMate
from antiphon.core.links.site_window import SiteWindow
from antiphon.errors import BadPacket
from antiphon.wire import packet, token_site
from antiphon.wire.packet import EVERYBODY, Data, Loose, PacketKind
from antiphon.wire.token_site import Confirm, Missing, SiteAck, SiteNack

RESEND_MIN_US = 5_000
"""An acknowledgement that passes the token is not repeated sooner."""
HURRY_MIN_US = 2_000
"""Between two requests for the token, at first."""
NULL_ACK_US = 5_000
NULL_ACK_ROUNDS = 8
"""After this time, or that of so many rounds, what is not known to be everywhere makes the token go round:
most of the time it rests where it is needed."""
NULL_ACK_MAX_US = 50_000
TELL_TIMES = 4
TELL_URGENT_US = 3_000
"""A member that has news of its aru waits for the token to come by so many times as long as the token site
waits, or so long if it is urgent, and then asks for it."""
LAG_MIN_US = 2_000
"""After a round in which a member had less than others, so long until the next; twice as long each time."""
ACK_PACKETS = 32
"""After so many packets of others the token site acknowledges them, whatever else there is to do."""
URGENT_PACKETS = 16
"""With more packets than these that are not known to be everywhere, no null acknowledgement waits."""
ASK_AGAIN_MIN_US = 2_000
ROUNDS = 2
"""A rotation is expected to take up to so many times its average."""


class TokenSite(SiteLink):
    """One daemon's end of the link of its segment."""

    protocol = "token-site"

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
        check_data: CheckData,
        datagrams: Outbox,
        now_us: int,
    ) -> None:
        super().__init__(
            me=me, members=members, digest=digest, view=view, incarnations=incarnations,
            packet_bytes=packet_bytes - token_site.REPAIR_BYTES, datagrams=datagrams,
            kinds=(PacketKind.DATA, PacketKind.UNRELIABLE, PacketKind.SITE_ACK, PacketKind.SITE_NACK),
        )  # fmt: skip
        self._numbering, self._check_numbering, self._check_data = numbering, check_numbering, check_data
        self.counters |= {"tokens": 0, "tokens_resent": 0, "null_acks": 0, "repairs": 0, "window_halvings": 0}
        self.mates: dict[int, SiteMate] = {member: SiteMate(now_us) for member in members if member != me}
        self._place = {member: place for place, member in enumerate(members)}
        self._round_interval_us, self._ask_us, self._suspect_us = signs.round_us, signs.ask_us, suspect_us
        # Data
        self.receptions = {member: Reception() for member in self._others}
        """By mate, which of its packets have come."""
        self._kept = {member: Kept() for member in self._others}
        self._open = OpenTrains()
        self.window = SiteWindow()
        """How many packets of ours may be under way."""
        self._stable = (0,) * len(members)  # by place: every member has its packets up to this
        self._passes = [(-1, self._stable)] * len(members)  # serial and what was sent, at each one's last
        self._unacknowledged = 0  # packets of others since our last acknowledgement
        # The order
        self._number, self._lts = 0, view
        self._arus = [view] * len(members)
        self.site_aru = view
        """Every member has every bundle up to this lts."""
        # The token
        self._serial, self._named = 0, members[0]  # of the newest acknowledgement, and whom it names
        self._site = members[0]  # the last known token site: somebody may know more than we do
        self._site_serial = 0  # and since which acknowledgement
        self._named_by: int | None = None  # who named us, until we have confirmed it or passed the token on
        self._pending: SiteAck | None = None  # it names us, and something that it counts is missing here
        self._has_token = me == members[0]
        self._to_go = len(members) if self._has_token else 0
        self._wanting: set[int] = set()
        self._passed: bytes | None = None  # our acknowledgement, until the next site is known to have it
        self._passed_serial, self._passed_to = 0, me
        self._passed_us = now_us
        self._round_us = 0
        self._resend_us: int | None = None
        self._resend_wait_us = RESEND_MIN_US
        self._go_us = now_us + signs.round_us  # when a token that rests must go round
        self._due_us: int | None = None  # when there is something to pass or to ask it for
        self._news_us: int | None = None  # since when we have a higher aru than we told
        self._lag_wait_us = LAG_MIN_US
        self._hurry_us: int | None = None
        self._hurry_wait_us = HURRY_MIN_US
        self._look_us = now_us + signs.round_us // 3  # when to look for silent mates

    # Questions --------------------------------------------------------------------------------------------

    @property
    def has_turn(self) -> bool:
        """Whether this daemon is the token site, and may number bundles."""
        return self._has_token

    @property
    def turns(self) -> int:
        """How often this daemon has accepted the token."""
        return self.counters["tokens"]

    @property
    def newest(self) -> tuple[int, int]:
        """What the newest acknowledgement told of the segment's bundles."""
        return self._number, self._lts

    @property
    def has_room(self) -> bool:
        """Whether more may be given to the link now than already waits."""
        return self._queue.waiting_bytes < self._room() * self.packet_bytes

    @property
    def in_flight_packets(self) -> int:
        """Packets of ours that are not known to be at every member."""
        return self._open.packets

    @property
    def open_bytes(self) -> int:
        """Bytes kept for retransmission, of our packets and of those of others."""
        return self._open.size_bytes + sum(kept.size_bytes for kept in self._kept.values())

    @property
    def open_limit_bytes(self) -> int:
        """What each member may have open, and the rest of a train."""
        return len(self.members) * (limits.SITE_OPEN_PACKETS * self.packet_bytes + limits.TRAIN_MAX_BYTES)

    @property
    def round_us(self) -> int:
        """How long the token takes for a round in which nobody keeps it."""
        return self._round_us

    def figures(self) -> dict[str, int]:
        """The window, and what is kept for others."""
        kept = sum(map(len, self._kept.values()))
        return {"window_packets": int(self.window.packets), "kept_packets": kept}

    @property
    def is_quiet(self) -> bool:
        """Nothing waits to be sent or retransmitted."""
        return not (self._queue or self._unreliable or any(one.missing for one in self.receptions.values()))

    # Events -----------------------------------------------------------------------------------------------

    def _receive_data(self, data: Data, now_us: int) -> list[Data]:
        sender = data.head.sender
        reception = self.receptions[sender]
        if data.head.number + data.count - 1 > reception.aru + limits.SITE_OPEN_PACKETS:
            raise BadPacket("packet: number beyond what a member sends")
        self.counters["packets_received"] += data.count
        news, duplicates = reception.take(data, now_us)
        self.counters["duplicates"] += duplicates
        for one in news:
            self._kept[sender].add(one)
            self._unacknowledged += one.count
        if self._pending is not None:
            self._accept(self._pending, now_us)
        return news

    def _receive_control(self, incoming: Loose, now_us: int) -> list[Data]:
        kind, sender = incoming.head.kind, incoming.head.sender
        if kind == PacketKind.SITE_ACK:
            self._receive_ack(sender, token_site.parse_ack(incoming.body), now_us)
        elif kind == PacketKind.SITE_NACK:
            self._answer(sender, token_site.parse_nack(incoming.body), now_us)
        elif kind == PacketKind.REPAIR:
            data = token_site.parse_repair(incoming.head, incoming.body)
            if data.head.sender not in self.receptions:
                raise BadPacket("repair: of no other member")
            self._check_data(data, True, now_us)
            return self._receive_data(data, now_us)
        elif kind == PacketKind.CONFIRM:
            self._receive_confirm(sender, token_site.parse_confirm(incoming.body), now_us)
        elif kind == PacketKind.HURRY:
            if self._has_token or self._pending is not None:
                self._wanting.add(sender)
            else:
                self._confirm(sender)
        return []

    # The token comes --------------------------------------------------------------------------------------

    def _receive_ack(self, sender: int, ack: SiteAck, now_us: int) -> None:
        if ack.serial <= self._serial:
            if ack.next == self._me and self._pending is None:
                self._confirm(sender)  # it is repeated although it had arrived
            return
        self._check(sender, ack, now_us)
        self._serial, self._named = ack.serial, ack.next
        self._number, self._lts = ack.number, ack.lts
        self._passes[self._place[sender]] = (ack.serial, ack.sent)
        self._arus = list(map(max, self._arus, ack.arus))
        for member, reception in self.receptions.items():
            reception.announced(ack.sent[self._place[member]], now_us)
        self.window.acknowledge(ack.sent[self._place[self._me]])
        self._numbering.passed(ack.number, ack.lts)
        self._raise_stable()
        if self._passed is not None:
            self._arrived(now_us)
        if ack.serial >= self._site_serial:
            self._site, self._site_serial = ack.next, ack.serial
        if ack.next == self._me:
            self._named_by = sender
            self._wanting = {one for one in self._others if ack.wanted >> self._place[one] & 1}
            self._accept(ack, now_us)
        elif self._hurry_us is not None:
            is_known = ack.wanted >> self._place[self._me] & 1
            self._hurry_us = now_us + 2 * HURRY_MIN_US if is_known else now_us

    def _check(self, sender: int, ack: SiteAck, now_us: int) -> None:
        """BadPacket for what no token site of ours can have sent: some of it would stop us for ever."""
        is_ours = self._has_token or self._pending is not None
        if is_ours or (ack.serial == self._serial + 1 and sender != self._named):
            raise BadPacket("site ack: not from the token site")
        if ack.serial > self._serial + limits.SITE_SERIAL_LEAD:
            raise BadPacket("site ack: counts too fast")
        if len(ack.sent) != len(self.members) or ack.next not in self._place or ack.next == sender:
            raise BadPacket("site ack: names daemons of no segment of ours")
        if ack.number < self._number or ack.lts < self._lts:
            raise BadPacket("site ack: counts backwards")
        if ack.sent[self._place[self._me]] > self.window.sent or any(
            ack.sent[self._place[member]] > reception.aru + limits.SITE_OPEN_PACKETS
            for member, reception in self.receptions.items()
        ):
            raise BadPacket("site ack: counts packets that nobody can have sent")
        self._check_numbering(ack.number, ack.lts, max(ack.arus), now_us)

    def _accept(self, ack: SiteAck, now_us: int) -> None:
        """Become the token site, unless something is missing that was sent before the token was passed on."""
        if not self._has_all_of(ack):
            self._pending = ack
            return
        self._pending = None
        self._has_token = True
        self._to_go = ack.to_go
        self._go_us = now_us + self._round_interval_us
        self._hurry_us = None
        self.counters["tokens"] += 1
        self._numbering.turn(ack.number, ack.lts)

    def _has_all_of(self, ack: SiteAck) -> bool:
        return all(
            reception.aru >= ack.sent[self._place[member]] for member, reception in self.receptions.items()
        )

    def _raise_stable(self) -> None:
        """What the oldest of all members' last acknowledgements counted as sent is everywhere: each member
        has accepted the token since then, or passed it on with it."""
        self._stable = min(self._passes)[1]
        self._open.acknowledged(self._stable[self._place[self._me]])
        for member, kept in self._kept.items():
            kept.forget(self._stable[self._place[member]])
        for mate in self.mates.values():
            if mate.asked_us:
                aru = self._stable[self._place[self._me]]
                mate.asked_us = {number: us for number, us in mate.asked_us.items() if number > aru}
        site_aru = min(self._arus)
        if site_aru > self.site_aru:
            self.site_aru = site_aru
            self._lag_wait_us = LAG_MIN_US

    def _arrived(self, now_us: int) -> None:
        """The next token site has what we sent it."""
        self._round_us += ((now_us - self._passed_us) * len(self.members) - self._round_us) // 8
        self._passed = self._resend_us = None

    def _receive_confirm(self, sender: int, confirm: Confirm, now_us: int) -> None:
        if confirm.site not in self._place or confirm.serial > self._serial + limits.SITE_SERIAL_LEAD:
            raise BadPacket("confirm: of no token site of ours")
        is_known = confirm.serial > self._passed_serial - (sender == self._passed_to)
        if self._passed is not None and is_known:
            self._arrived(now_us)
        if confirm.serial > self._site_serial and not self._has_token:
            self._site, self._site_serial = confirm.site, confirm.serial
            if self._hurry_us is not None:
                self._hurry_us = now_us

    def _confirm(self, receiver: int) -> None:
        body = token_site.encode_confirm(Confirm(self._serial, self._site))
        prefix = self._prefix(PacketKind.CONFIRM, receiver)
        self._emit_alone(receiver, packet.whole(prefix, body, counter=self._counter.take()))

    # What is missing --------------------------------------------------------------------------------------

    def _ask(self, now_us: int) -> None:
        """Request what should have come and has not: from the last known token site, then from the one that
        sent it, then from one after another, and at last from all."""
        retry_us = max(ASK_AGAIN_MIN_US, ROUNDS * self._round_us)
        wanted: dict[int, list[Missing]] = {}
        for member, reception in self.receptions.items():
            if reception.ask_us is None or reception.ask_us > now_us:
                continue
            ranges, asked = reception.ask(now_us, retry_us)
            if ranges:
                missing = wanted.setdefault(self._answering(member, asked), [])
                missing += [(member, first, count) for first, count in ranges]
            oldest_us = reception.oldest_us()
            if asked > 1 and oldest_us is not None and now_us - oldest_us > 2 * self._suspect_us:
                silent = min(self.mates.values(), key=lambda mate: mate.direct_us)
                self._fail(silent, "a packet did not come although it was asked for again and again")
        for answers, missing in wanted.items():
            self.counters["nacks_sent"] += 1
            body = token_site.encode_nack(SiteNack(answers, tuple(missing[: limits.NACK_RANGES_MAX])))
            prefix = self._prefixes[PacketKind.SITE_NACK]
            self._emit_to_all(packet.whole(prefix, body, counter=self._counter.take()))

    def _answering(self, sender: int, asked: int) -> int:
        """Who is to answer the request for packets of `sender` that is made for the `asked`th time."""
        rest = [member for member in self._others if member not in (self._site, sender)]
        chosen = [*([] if self._site == self._me else [self._site]), sender, *rest]
        return chosen[asked - 1] if asked <= len(chosen) else EVERYBODY

    def _answer(self, who: int, nack: SiteNack, now_us: int) -> None:
        room = limits.SITE_ANSWER_PACKETS
        for sender, first, count in nack.missing:
            if sender not in self._place:
                raise BadPacket("site nack: of no segment of ours")
            begin = max(first, self._stable[self._place[sender]] + 1)
            newest = self.window.sent if sender == self._me else self.receptions[sender].highest
            wanted = range(begin, min(first + count, newest + 1))
            if sender == self._me and wanted:
                self.counters["window_halvings"] += self.window.lost(wanted[-1])
            if nack.answers in (self._me, EVERYBODY):
                for number in wanted[:room]:
                    room -= self._send_again(sender, number, who, self.mates[who], now_us)

    def _send_again(self, sender: int, number: int, who: int, mate: SiteMate, now_us: int) -> bool:
        """Send a packet again to the mate that lacks it, if it is here."""
        if sender == self._me:
            data = self._open.packet(number, self._counter)
            if data is None:
                return False
            since_us = mate.asked_us.setdefault(number, now_us)
            if now_us - since_us > self._suspect_us:
                self._fail(mate, "it asked for one packet for too long")
        else:
            kept = self._kept[sender].packet(number)
            if kept is None:
                return False
            self.counters["repairs"] += 1
            prefix, body = self._prefix(PacketKind.REPAIR, who), token_site.encode_repair(kept)
            data = packet.whole(prefix, body, number, counter=self._counter.take())
        self.counters["retransmitted"] += 1
        self._emit_alone(who, data)
        return True

    # Sending ----------------------------------------------------------------------------------------------

    def _room(self) -> int:
        """How many packets this daemon may send now."""
        is_open = self.window.sent - self._stable[self._place[self._me]]
        return min(self.window.room, limits.SITE_OPEN_PACKETS - is_open)

    def conclude(self, is_wanted: bool, now_us: int) -> None:
        """Everything that follows from the events so far is done: send, and pass the token on if it is time.
        `is_wanted`: something waits for a number."""
        self._send_data()
        if self._has_token:
            self._decide(is_wanted, now_us)
        else:
            self._ask_for_token(is_wanted, now_us)
        self._numbering.is_turn = self._has_token
        self._numbering.vouched(self.site_aru)

    def _send_data(self) -> None:
        """Send what waits, as far as the window allows, whoever has the token."""
        sent = 0
        while self._queue and (room := self._room()) > 0:
            train = self._queue.train(self.window.sent + 1, room)
            self.window.sent += train.count
            sent += train.count
            self._open.append(train)
            self._emit(train)
        while self._unreliable:
            self._emit(self._unreliable.train(0, 1))
            sent += 1
        self.counters["packets_sent"] += sent

    def _decide(self, is_wanted: bool, now_us: int) -> None:
        """We are the token site: pass the token on, or let it rest here."""
        numbering, following = self._numbering, self._after(self._me)
        claimed = max(self._lts, numbering.own_lts)
        if self._to_go:
            self._pass(following, self._to_go - 1, now_us)
        elif self._wanting:
            self._pass(self._next_wanting(), 0, now_us)
        elif (
            self._queue
            or (is_wanted and not self.has_room)
            or min(numbering.needs_lts, numbering.clock) > claimed
            or self._unacknowledged >= ACK_PACKETS
        ):
            self._pass(following, 0, now_us)
        else:
            due_us = self._round_due_us(now_us)
            if due_us <= now_us:
                if self._news_us is None:
                    self._lag_wait_us = min(self._round_interval_us, 2 * self._lag_wait_us)
                self._pass(following, len(self.members) - 1, now_us)
            else:
                self._due_us = due_us
                if self._named_by is not None:
                    self._confirm(self._named_by)
                    self._named_by = None

    def _round_due_us(self, now_us: int) -> int:
        """When the token must go round although nobody wants it: as a sign of life, or because something is
        not known to be everywhere."""
        aru = self._watch_news(now_us)
        if self._news_us is not None:
            wait_us = 0 if self._is_urgent else self._null_ack_us
            return min(self._go_us, self._news_us + wait_us)
        if self._matters and min(self._arus) < aru:
            return min(self._go_us, self._passed_us + self._lag_wait_us)
        return self._go_us

    @property
    def _null_ack_us(self) -> int:
        """How long a null acknowledgement waits for something to acknowledge."""
        return min(NULL_ACK_MAX_US, max(NULL_ACK_US, NULL_ACK_ROUNDS * self._round_us))

    @property
    def _matters(self) -> bool:
        """Whether anybody waits for a higher aru of the segment."""
        return self._numbering.highest_lts > self._numbering.own_aru

    @property
    def _is_urgent(self) -> bool:
        """Whether our news are waited for, or there is much that is not known to be everywhere."""
        numbering = self._numbering
        if not self._is_told and numbering.needs_aru > numbering.own_aru:
            return True
        return self._open.packets + sum(map(len, self._kept.values())) > URGENT_PACKETS

    @property
    def _is_told(self) -> bool:
        """Whether the others know as much of our aru as matters to anybody."""
        return not self._matters or self._numbering.aru <= self._arus[self._place[self._me]]

    def _watch_news(self, now_us: int) -> int:
        """Our aru, after a look at whether it is news to others that matters, or a packet is unstable."""
        is_open = self._open or (self._has_token and any(self._kept.values()))
        if self._is_told and not is_open:
            self._news_us = None
        elif self._news_us is None:
            self._news_us = now_us
        return self._numbering.aru

    def _after(self, member: int) -> int:
        """The next member in the order of the ring."""
        return self.members[(self._place[member] + 1) % len(self.members)]

    def _next_wanting(self) -> int:
        """The member that gets the token, of those that want it; or one that has not had it for long,
        because stability waits for all."""
        oldest = min(self._others, key=lambda member: self._passes[self._place[member]][0])
        if self._passes[self._place[oldest]][0] < self._serial - 2 * len(self.members):
            return oldest
        member = self._after(self._me)
        while member not in self._wanting:
            member = self._after(member)
        return member

    def _pass(self, following: int, to_go: int, now_us: int) -> None:
        """Acknowledge, and name the next token site."""
        numbering, place = self._numbering, self._place[self._me]
        self._serial += 1
        if numbering.issued == self._number:
            self.counters["null_acks"] += 1
        self._number, self._lts = numbering.issued, max(self._lts, numbering.clock)
        self._arus[place] = max(self._arus[place], numbering.aru)
        sent = tuple(
            self.window.sent if member == self._me else self.receptions[member].aru for member in self.members
        )
        self._passes[place] = (self._serial, sent)
        self._wanting.discard(following)
        wanted = sum(1 << self._place[member] for member in self._wanting)
        self._wanting = set()
        ack = SiteAck(
            self._serial, self._number, self._lts, following, to_go, wanted, sent, tuple(self._arus)
        )
        body = token_site.encode_ack(ack)
        prefix = self._prefixes[PacketKind.SITE_ACK]
        self._passed = packet.whole(prefix, body, counter=self._counter.take())
        self._named = self._passed_to = following
        self._passed_serial, self._passed_us = self._serial, now_us
        self._resend_wait_us = min(self._round_interval_us, max(RESEND_MIN_US, ROUNDS * self._round_us))
        self._resend_us = now_us + self._resend_wait_us
        self._site, self._site_serial = following, self._serial
        self._has_token = False
        self._unacknowledged = self._to_go = 0
        self._named_by = self._news_us = self._due_us = self._hurry_us = None
        self._raise_stable()
        self._emit_to_all(self._passed)

    def _ask_for_token(self, is_wanted: bool, now_us: int) -> None:
        """Another member is the token site: ask it for the token, if we need it."""
        self._due_us = None
        self._watch_news(now_us)
        is_due = False
        if self._news_us is not None:
            due_us = self._news_us + (TELL_URGENT_US if self._is_urgent else TELL_TIMES * self._null_ack_us)
            is_due = due_us <= now_us
            self._due_us = None if is_due else due_us
        if self._pending is not None or not (is_wanted or self._queue or is_due):
            self._hurry_us = None
            self._hurry_wait_us = HURRY_MIN_US
            return
        if self._hurry_us is None:
            self._hurry_us = now_us
        if self._hurry_us <= now_us:
            self._hurry_us = now_us + self._hurry_wait_us
            self._hurry_wait_us = min(self._round_interval_us, 2 * self._hurry_wait_us)
            if self._site != self._me:
                prefix = self._prefix(PacketKind.HURRY, self._site)
                self._emit_alone(self._site, packet.whole(prefix, counter=self._counter.take()))

    # Time -------------------------------------------------------------------------------------------------

    def timeout(self, now_us: int) -> None:
        """Do whatever is due; what concerns the token, if it is here, `conclude` does."""
        if self._resend_us is not None and self._resend_us <= now_us:
            assert self._passed is not None
            self.counters["tokens_resent"] += 1
            self._emit_alone(self._passed_to, packet.again(self._passed, self._counter.take()))
            self._resend_wait_us = min(self._round_interval_us, self._resend_wait_us * 3 // 2)
            self._resend_us = now_us + self._resend_wait_us
        self._ask(now_us)
        if self._look_us <= now_us:
            self._look_for_the_silent(now_us)

    def _look_for_the_silent(self, now_us: int) -> None:
        """Acknowledgements show that their senders are alive; who has sent none for long gets a hello."""
        overdue_us = self._round_interval_us + self._ask_us
        self._look_us = now_us + overdue_us
        for number, mate in self.mates.items():
            wait_us = self._round_interval_us // 3 if mate.state is LinkState.CLOSED else overdue_us
            if mate.heard_us + wait_us > now_us:
                self._look_us = min(self._look_us, mate.heard_us + wait_us)
                continue
            self._look_us = min(self._look_us, now_us + self._ask_us)
            self._question(number, mate, now_us)

    def next_deadline_us(self) -> int:
        """When `timeout` or `conclude` has something to do."""
        deadline_us = self._look_us
        for due_us in (self._resend_us, self._due_us, self._hurry_us):
            if due_us is not None and due_us < deadline_us:
                deadline_us = due_us
        for reception in self.receptions.values():
            if reception.ask_us is not None and reception.ask_us < deadline_us:
                deadline_us = reception.ask_us
        return deadline_us
