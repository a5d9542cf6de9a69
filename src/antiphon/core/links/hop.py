"""Hop: a reliable link between two daemons that never delays a packet for an earlier one.

Follows: Spread paper 3.2 (figure 3.2), thesis 4.3 (figures 4.1 and 4.2). For the size of packets RFC 8899 and
RMP 4.6 (figure 4.2): see `path_size`; a packet has no more than half of the window, and none is sent while so
little of the window is left that it would be a small one.
Deviations:
- nacks carry ranges; the nack delay follows the reordering seen; nacks carry the aru, too
- an ack may ask for an answer (`number` 1), so that a lost ack costs one exchange, not a retransmission
- a link has a handshake and belongs to one daemon view: see `Link`
- figure 4.2 line 18 compares H_ARU with Next_Packet, which are never equal; what is meant is "nothing is
  missing", and that is what `Reception` asks
- RMP cuts a packet down to what is left of the window. Here it waits: at least as much is under way as it
  needs, so an ack is due, and packets of one size travel in one train
- a packet that has become too large for its path is retransmitted in pieces (see `pieces`)
- a failed link is reported and goes on with fresh counts: the membership decides what failure means
- acks tell the newest packet and how many have come, so that the window counts what is under way, not what
  waits behind a hole, and round trips are measured while packets are missing (as RFC 9002 5.1 does)
- requested packets wait for their turn among the paced ones, before all new packets
Checked by: tests/paper/test_hop.py, the oracle's reliable-delivery rules in the simulator.
"""

from itertools import islice

from msgspec import Struct

from antiphon import limits
from antiphon.config import LinkConfig
from antiphon.core.effects import Datagram, Outbox
from antiphon.core.links.flow import Regulator
from antiphon.core.links.link import Ends, Link, LinkState, Signs
from antiphon.core.links.open_trains import OpenTrains
from antiphon.core.links.packing import Train
from antiphon.core.links.path_size import PathSize
from antiphon.core.links.pieces import Pieces
from antiphon.core.links.receiving import Reception
from antiphon.errors import BadPacket
from antiphon.wire import packet
from antiphon.wire.packet import Ack, Data, Hello, Nack, Packet, PacketKind, Piece

ACK_PACKETS = 128
"""An ack is sent after so many packets at the latest (the paper's max_pkt_btw_ack)."""
ACK_BYTES = ACK_PACKETS * limits.PACKET_DEFAULT_BYTES
"""The same for large packets: in bytes, acks are as frequent as with small ones."""
SUSPECT_REQUESTS = 2
"""When a packet above the base size was requested so often, the path may have become narrower. From the next
time on it goes in pieces in any case: a path that drops what exceeds its rate lets few large packets through,
and pieces of several retransmissions complete one another."""
RATE_SHARE = 20
"""With a configured rate, a packet has at most what may be sent in this part (1/20) of a second."""
NACK_RETRY_MIN_US = 2_000
NACKS_MAX = 24
"""The k of thesis 4.3: after so many nacks for one packet, on either side, the link has failed."""
PROBES_MAX = 12
"""After so many probes without an answer the link has failed."""
PROBES_PERSISTENT = 2
"""After so many probes without an answer, the second of which comes after three times the timeout of the
first, congestion is persistent (RFC 9002 7.6)."""


class _Requested(Struct):
    """A packet that the peer has requested."""

    times: int = 0
    """How often it was sent again."""
    sent_us: int = 0


class HopLink(Link):
    """One end of a Hop link. One that has failed is still tried, and an answer opens it again."""

    protocol = "hop"

    def __init__(self, ends: Ends, path: LinkConfig, *, signs: Signs, datagrams: Outbox, now_us: int) -> None:
        """`path` is the configuration of the path between the two sites."""
        base_bytes = path.packet_base_bytes
        window_packets = max(8, path.window_bytes // base_bytes)
        regulator = Regulator(window_packets, path.rate_bytes_per_s, base_bytes, now_us, path.congestion)
        super().__init__(ends, base_bytes, regulator, signs=signs, datagrams=datagrams, now_us=now_us)
        self.path = PathSize(base_bytes, path.packet_max_bytes, now_us)
        self._rate_share_bytes = path.rate_bytes_per_s // RATE_SHARE or limits.PACKET_MAX_BYTES
        self.counters |= {"size_probes_sent": 0, "pieces_sent": 0, "pieces_received": 0}
        # Sending
        self.in_flight_bytes = 0
        """Bytes of the packets that are sent and not acknowledged."""
        self._open = OpenTrains()
        self._highest_sent = 0
        self._peer_aru = 0
        self._peer_arrived = 0  # how many different packets have come to the peer
        self._peer_newest = 0
        self._limited_number = 0  # the highest number when the window last kept a packet back
        self._sent_us = now_us
        self._stuck_number = 0  # the highest number of which a second copy was lost
        self._requested: dict[int, _Requested] = {}  # by number
        self._again: dict[int, None] = {}  # numbers to be sent again, the first first
        self._probe_us: int | None = None
        self._probes = 0
        self._is_excused = False  # whether a timeout was let pass because this process stood still
        self._unreliable_us = 0  # when the next unreliable packet may go, were there no bursts
        # Receiving
        self.reception = Reception()
        self._piece_bytes = packet.capacity(base_bytes) - packet.PIECE_START_BYTES
        self._pieces = Pieces(self._piece_bytes)
        self._since_ack = 0
        self._since_ack_bytes = 0
        self._ack_us: int | None = None
        self._newest = 0
        self._newest_us = now_us

    # Questions --------------------------------------------------------------------------------------------

    @property
    def in_flight_packets(self) -> int:
        return self._highest_sent - self._peer_aru

    @property
    def open_bytes(self) -> int:
        """Bytes kept for retransmission."""
        return self._open.size_bytes

    @property
    def open_limit_bytes(self) -> int:
        """The maximum window, and the rest of a train that is acknowledged in part."""
        return self.regulator.window_max_bytes + limits.TRAIN_MAX_BYTES

    @property
    def under_way_bytes(self) -> int:
        """Bytes of the packets that are not known to have arrived. Of those after a hole only the number is
        known, so each of them counts as the mean of what is in flight."""
        in_flight = self._highest_sent - self._peer_aru
        if self._peer_arrived == self._peer_aru or not in_flight:
            return self.in_flight_bytes
        return self.in_flight_bytes * (self._highest_sent - self._peer_arrived) // in_flight

    @property
    def packet_allowed_bytes(self) -> int:
        """The largest packet that the window and the rate allow: half of the window, but no less than the
        base (RMP, figure 4.2)."""
        return max(self.path.base_bytes, min(self.regulator.window_bytes // 2, self._rate_share_bytes))

    @property
    def is_quiet(self) -> bool:
        """Nothing waits to be sent, acknowledged or retransmitted, in either direction."""
        return not (self._queue or self._unreliable or self.in_flight_packets or self.reception.missing)

    # Requests ---------------------------------------------------------------------------------------------

    def pump(self, now_us: int) -> None:
        """Send what the window and the rate allow (Hop_Send_Data)."""
        self._refill_us = None
        if self.state is not LinkState.OPEN:
            return  # an answer opens it, and then calls this again
        if self._again:
            self._send_again(now_us)
        if self._queue and not self.in_flight_packets and now_us - self._sent_us > self.regulator.timeout_us:
            self.regulator.controller.rested()
            self._sent_us = now_us
        while self._queue and (room := self._room(now_us)):
            self._send_train(self._queue.train(self._highest_sent + 1, room), now_us)
        while self._unreliable and self._pace_unreliable(now_us):
            train = self._unreliable.train(0, 1)
            self._unreliable_us += self._spacing_us * -(-train.size_bytes // self.path.base_bytes)
            self._emit(train.buffers, train.stride_bytes, train.size_bytes)

    def _room(self, now_us: int) -> int:
        """How many packets the window, the pace and the configured rate allow now."""
        self._fit(self._queue.waiting_bytes, now_us)
        regulator, packet_bytes = self.regulator, self.packet_bytes
        # While copies are lost, too, nothing new takes their place: the window counts from the first hole.
        is_stuck = self._stuck_number > self._peer_aru
        under_way_bytes = self.in_flight_bytes if is_stuck else self.under_way_bytes
        left_bytes = min(
            regulator.window_bytes - under_way_bytes, regulator.window_max_bytes - self.in_flight_bytes
        )
        room = left_bytes // packet_bytes
        if room <= 0 and (not self.in_flight_packets or 2 * self._queue.waiting_bytes < left_bytes):
            room = 1  # all that waits is small enough
        room = min(room, regulator.window_max_packets - self.in_flight_packets)
        if room > 0:
            room = min(room, self._room_by_pace(now_us))
        if room <= 0:
            self._limited_number = self._highest_sent
            return 0
        if regulator.has_rate:
            room = min(room, self._room_by_rate(now_us))
        return max(0, room)

    def _fit(self, waiting_bytes: int, now_us: int) -> None:
        """Make packets as large as path and window allow, and look for more if that would help."""
        self._resize(min(self.path.size_bytes, self.packet_allowed_bytes))
        if self.path.is_unasked and waiting_bytes > self.packet_bytes:
            self.path.begin(now_us)

    def _room_by_pace(self, now_us: int) -> int:
        room = self.regulator.paced_packets(self.packet_bytes, not self.in_flight_packets, now_us)
        if room <= 0:
            waiting_bytes = self.waiting_bytes + len(self._again) * self.packet_bytes
            self._wake_at(now_us + self.regulator.pace_us(self.packet_bytes, waiting_bytes))
        return room

    def _room_by_rate(self, now_us: int) -> int:
        room = int(self.regulator.may_send_bytes(now_us) // self.packet_bytes)
        if room <= 0:
            self._wake_at(now_us + self.regulator.refill_us(self.packet_bytes))
        return room

    def _wake_at(self, at_us: int) -> None:
        """Pump again at this time."""
        if self._refill_us is None or at_us < self._refill_us:
            self._refill_us = at_us

    @property
    def _spacing_us(self) -> int:
        """The time for one packet of the base size, if one window is sent in each round trip."""
        return max(1, int(self.regulator.rtt_us / self.regulator.window_packets))

    def _pace_unreliable(self, now_us: int) -> bool:
        """Unreliable packets have no acks to clock them: one window of them per round trip."""
        self._fit(self._unreliable.waiting_bytes, now_us)
        if self.regulator.has_rate and self._room_by_rate(now_us) <= 0:
            return False
        burst_us = self._spacing_us * limits.TRAIN_MAX_PACKETS
        if self._unreliable_us > now_us + burst_us:
            self._wake_at(self._unreliable_us - burst_us)
            return False
        self._unreliable_us = max(self._unreliable_us, now_us)
        return True

    def _send_train(self, train: Train, now_us: int) -> None:
        train.sent_us = self._sent_us = now_us
        self._open.append(train)
        self._highest_sent += train.count
        self.in_flight_bytes += train.size_bytes
        self.regulator.sent_packets(train.count)
        self.counters["packets_sent"] += train.count
        if self._probe_us is None:
            self._probe_us = now_us + self.regulator.timeout_us
        self._emit(train.buffers, train.stride_bytes, train.size_bytes)

    def _emit(self, buffers: list[bytes | memoryview], stride_bytes: int, size_bytes: int) -> None:
        self.regulator.sent(size_bytes)
        self._datagrams.append(Datagram(self.peer, buffers, stride_bytes, size_bytes))

    # Events -----------------------------------------------------------------------------------------------

    def receive(self, incoming: Packet, now_us: int) -> list[Data]:
        """A packet of the peer came in. What is new of it, to be handed upwards (Hop_Recv)."""
        if incoming.head.incarnation != self._peer_incarnation:
            return []  # the membership detects the restart
        self._check(incoming)
        self._heard(now_us)
        if isinstance(incoming, Hello):
            self._progress()
            if incoming.head.number:
                self.path.answered(incoming.head.number, now_us)
            self._receive_hello(incoming, now_us)
            return []
        if self.state is LinkState.CLOSED:
            self._open_up("spoke")
        if isinstance(incoming, Data):
            if incoming.head.kind == PacketKind.UNRELIABLE:
                return [incoming]
            return self._receive_data(incoming, now_us)
        if isinstance(incoming, Piece):
            return self._receive_piece(incoming, now_us)
        self._progress()
        if isinstance(incoming, Ack):
            self._receive_ack(incoming, now_us)
        elif isinstance(incoming, Nack):
            self._receive_nack(incoming, now_us)
        return []

    def _check(self, incoming: Packet) -> None:
        """BadPacket for numbers that the other end cannot have: beyond its largest window, which counts from
        what we have acknowledged, or beyond what we have sent."""
        if isinstance(incoming, Data):
            highest = incoming.head.number + incoming.count - 1
        elif isinstance(incoming, Piece):
            highest = incoming.head.number
        elif isinstance(incoming, Ack | Nack):
            highest = 0
            told = incoming.aru
            if isinstance(incoming, Ack):
                highest = incoming.highest_sent
                told = max(told, incoming.newest, incoming.arrived)
            if told > self._highest_sent:
                raise BadPacket("ack: of more than was sent")
        else:
            return
        if highest > self.reception.aru + self.regulator.window_max_packets:
            raise BadPacket("packet: number beyond its sender's window")

    def _receive_data(self, data: Data, now_us: int) -> list[Data]:
        self.counters["packets_received"] += data.count
        self._since_ack += data.count
        self._since_ack_bytes += data.size_bytes
        self._newest, self._newest_us = data.head.number + data.count - 1, now_us
        if self._ack_us is None:
            self._ack_us = now_us + self.regulator.ack_delay_us
        news, duplicates = self.reception.take(data, now_us)
        if duplicates:
            self.counters["duplicates"] += duplicates
            self._ack_us = now_us  # the sender retransmits: our ack was lost
        if self._since_ack >= ACK_PACKETS or self._since_ack_bytes >= ACK_BYTES:
            self._send_ack(now_us)
        if self._pieces:
            self._pieces.forget(self.reception.aru)
        return news

    def _receive_piece(self, piece: Piece, now_us: int) -> list[Data]:
        self.counters["pieces_received"] += 1
        if not self.reception.lacks(piece.head.number):
            self._ack_us = now_us  # the sender retransmits: our ack was lost
            return []
        items = self._pieces.take(piece)
        return [] if items is None else self._receive_data(packet.joined(piece.head, items), now_us)

    def _receive_ack(self, ack: Ack, now_us: int) -> None:
        self._measure(ack, now_us)
        self._acknowledged(ack.aru, max(ack.arrived, ack.aru), now_us)
        self.reception.announced(ack.highest_sent, now_us)
        if ack.head.number:
            self._send_ack(now_us)
        self.pump(now_us)

    def _receive_nack(self, nack: Nack, now_us: int) -> None:
        self._acknowledged(nack.aru, nack.aru, now_us)
        self._request(nack.ranges, now_us)
        self.pump(now_us)

    def _measure(self, ack: Ack, now_us: int) -> None:
        """The round trip of the newest packet, unless the ack could be for its second copy."""
        if ack.newest <= self._peer_newest:
            return
        self._peer_newest = ack.newest
        sent_us = self._open.sent_us(ack.newest)
        if sent_us is not None and ack.newest not in self._requested:
            self.regulator.sampled(now_us - sent_us, ack.delay_us, ack.newest, self._highest_sent, now_us)

    def _acknowledged(self, aru: int, arrived: int, now_us: int) -> None:
        """Everything up to `aru` has come, and as many packets as `arrived`."""
        if aru <= self._peer_aru and arrived <= self._peer_arrived:
            return
        if arrived > self._peer_arrived:
            is_limited = self._peer_arrived < self._limited_number
            newest = max(aru, self._peer_newest)
            before_bytes = self.under_way_bytes
            self._peer_arrived = arrived
            self.regulator.arrived(before_bytes - self.under_way_bytes, newest, is_limited, now_us)
            if self.path.waits_for_window:
                self.path.window_is(self.packet_allowed_bytes, now_us)
        if aru > self._peer_aru:
            self.in_flight_bytes -= self._open.size_between(self._peer_aru, aru)
            self._peer_aru = aru
            self._open.acknowledged(aru)
            if self._requested:
                self._resolve(aru, now_us)
            self.regulator.losses.acknowledged(aru, now_us)
        self._is_excused = False
        self._probe_us = now_us + self.regulator.timeout_us if self.in_flight_packets else None

    def _resolve(self, aru: int, now_us: int) -> None:
        """Requested packets up to `aru` have come. One whose second copy cannot have arrived yet was late,
        not lost."""
        earliest_us = now_us - self.regulator.least_rtt_us
        for number in [number for number in self._requested if number <= aru]:
            requested = self._requested.pop(number)
            was_lost = requested.times > 0 and requested.sent_us <= earliest_us
            self._again.pop(number, None)
            self.regulator.losses.resolved(number, was_lost, now_us)

    def _request(self, ranges: list[tuple[int, int]], now_us: int) -> None:
        """The peer lacks these packets. A request that was made before the last copy can have arrived is
        answered by that copy."""
        earliest_us = now_us - self.regulator.least_rtt_us
        room = max(16, int(self.regulator.window_packets))
        for first, count in ranges:
            first, end = max(first, self._peer_aru + 1), min(first + count, self._highest_sent + 1)
            for number in range(first, end):
                requested = self._requested.get(number)
                if requested is None:
                    self._requested[number] = _Requested()
                    self.regulator.losses.lost(number, self._highest_sent, now_us)
                elif requested.times and requested.sent_us > earliest_us:
                    continue
                if requested is not None and requested.times:
                    self._stuck_number = max(self._stuck_number, number)
                if len(self._again) < room:  # the receiver will request the rest again
                    self._again[number] = None

    def _send_again(self, now_us: int) -> None:
        """Send requested packets again, as the pace allows, even when the window is full (thesis 4.3)."""
        while self._again and (room := self._room_by_pace(now_us)) > 0:
            for number in list(islice(self._again, room)):
                del self._again[number]
                self._retransmit(number, now_us)

    def _retransmit(self, number: int, now_us: int) -> None:
        data = self._open.packet(number, self._counter)
        if data is None:
            return
        requested = self._requested[number]
        requested.times += 1
        requested.sent_us = now_us
        if requested.times > NACKS_MAX:
            self._fail(f"daemon asked {requested.times} times for one packet and did not get it")
        self.counters["retransmitted"] += 1
        if len(data) > self.path.base_bytes and requested.times >= SUSPECT_REQUESTS:
            self.path.suspect(now_us)
        path = self.path
        if len(data) > (path.size_bytes if requested.times <= SUSPECT_REQUESTS else path.base_bytes):
            self._emit_pieces(data)
            return
        self._emit([data], len(data), len(data))

    def _emit_pieces(self, data: bytes) -> None:
        """Retransmit a packet that is too large for the path as it is now."""
        prefix = self._prefixes[PacketKind.PIECE]
        pieces = packet.pieces(prefix, data, self._piece_bytes, self._counter.take)
        self.counters["pieces_sent"] += len(pieces)
        self._emit(list(pieces), len(pieces[0]), sum(map(len, pieces)))

    # The size of packets ----------------------------------------------------------------------------------

    def _probe_path(self, now_us: int) -> None:
        """Find out whether packets of another size get through."""
        size_bytes = self.path.probe(
            now_us, self.regulator.patience_us, self.packet_allowed_bytes, self.heard_us
        )
        if not size_bytes:
            return
        prefix, counter = self._prefixes[PacketKind.HELLO], self._counter.take()
        data = packet.hello(prefix, now_us, 0, size_bytes=size_bytes, counter=counter)
        self.counters["size_probes_sent"] += 1
        self.regulator.sent(len(data))
        self._datagrams.append(Datagram(self.peer, [data], len(data), len(data), is_whole=True))
        self._say_hello(now_us, 0)  # whether small packets get through

    def timeout(self, now_us: int) -> None:
        """Do whatever is due."""
        if self._hello_us <= now_us:
            self._ask(now_us)
        if self._ack_us is not None and self._ack_us <= now_us:
            self._send_ack(now_us)
        ask_us = self.reception.ask_us
        if ask_us is not None and ask_us <= now_us:
            self._send_nack(now_us)
        if self._probe_us is not None and self._probe_us <= now_us:
            self._probe(now_us)
        due_us = self.path.due_us
        if due_us is not None and due_us <= now_us and self.state is LinkState.OPEN:
            self._probe_path(now_us)
        if self._refill_us is not None and self._refill_us <= now_us:
            self.pump(now_us)

    def next_deadline_us(self) -> int:
        """When `timeout` has something to do. Asked after every event, hence without a loop."""
        deadline_us = self._hello_us
        due_us = self._ack_us
        if due_us is not None and due_us < deadline_us:
            deadline_us = due_us
        due_us = self.reception.ask_us
        if due_us is not None and due_us < deadline_us:
            deadline_us = due_us
        due_us = self._probe_us
        if due_us is not None and due_us < deadline_us:
            deadline_us = due_us
        due_us = self._refill_us
        if due_us is not None and due_us < deadline_us:
            deadline_us = due_us
        due_us = self.path.due_us
        if due_us is not None and due_us < deadline_us and self.state is LinkState.OPEN:
            deadline_us = due_us
        return deadline_us

    # Acks, nacks, probes --------------------------------------------------------------------------------

    def _send_ack(self, now_us: int, question: bool = False) -> None:
        self._since_ack = self._since_ack_bytes = 0
        self._ack_us = None
        prefix = self._prefixes[PacketKind.ACK]
        delay_us = min(now_us - self._newest_us, 0xFFFFFFFF)
        reception = self.reception
        data = packet.ack(
            prefix,
            reception.aru,
            self._highest_sent,
            delay_us,
            question,
            newest=self._newest,
            arrived=reception.highest - reception.missing,
            counter=self._counter.take(),
        )
        self._emit_alone(self.peer, data)

    def _send_nack(self, now_us: int) -> None:
        """Request the packets that are still missing (SendNACK timeout)."""
        retry_us = max(NACK_RETRY_MIN_US, self.regulator.patience_us)
        ranges, asked_most = self.reception.ask(now_us, retry_us)
        if not ranges:
            return
        self.counters["nacks_sent"] += 1
        if asked_most > NACKS_MAX:
            self.reception.forgive()
            self._fail(f"a packet did not come after {asked_most} nacks")
        prefix = self._prefixes[PacketKind.NACK]
        self._emit_alone(
            self.peer, packet.nack(prefix, self.reception.aru, ranges, counter=self._counter.take())
        )

    def _probe(self, now_us: int) -> None:
        """No ack came in time: announce our highest number and request an ack. If this process stood still
        meanwhile, acks may wait for it to read them."""
        if not self.in_flight_packets:
            self._probe_us = None
            return
        assert self._probe_us is not None
        timeout_us = self.regulator.timeout_us
        if now_us - self._probe_us > timeout_us // 2 and not self._is_excused:
            self._is_excused = True
            self._probe_us = now_us + timeout_us
            return
        self._is_excused = False
        self._probes += 1
        self.regulator.timed_out(self._probes >= PROBES_PERSISTENT, self._highest_sent, now_us)
        if self._probes > PROBES_MAX:
            self._fail(f"no answer to {self._probes} questions")
        self._send_ack(now_us, question=True)
        self._probe_us = now_us + self.regulator.timeout_us

    def _fail(self, reason: str) -> None:
        for requested in self._requested.values():
            requested.times = min(requested.times, 1)
        self._probes = 0
        super()._fail(reason)

    def _progress(self) -> None:
        """The peer answered."""
        self._probes = 0
        if self.state is LinkState.FAILED:
            self.state = LinkState.OPEN
            self.reason = "answers again"
