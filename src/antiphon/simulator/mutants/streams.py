"""Mutants of links over TCP: what a programmer may believe about connections, and is wrong about."""

from antiphon.core.effects import Datagram
from antiphon.core.links.tcp import TcpLink
from antiphon.core.streams.exchange import Exchange
from antiphon.core.streams.streams import Streams
from antiphon.limits import PACKET_MAX_BYTES
from antiphon.simulator.mutants.mutant import Mutant, Original


def _never_fails(original: Original) -> Original:
    def fail(link: TcpLink, reason: str) -> None:
        link.reason = reason

    return fail


def _progress_not_told(original: Original) -> Original:
    def stream_moved(streams: Streams, peer: int, waiting_bytes: int, now_us: int) -> None:
        return

    return stream_moved


def _room_ignored(original: Original) -> Original:
    def has_room(link: TcpLink, now_us: int) -> bool:
        return True

    return has_room


def _dropped_when_much_waits(original: Original) -> Original:
    def send(exchange: Exchange, datagram: Datagram, now_us: int) -> None:
        channel = exchange._lines[datagram.receiver].open
        if channel is None or channel.waiting_bytes < PACKET_MAX_BYTES:
            original(exchange, datagram, now_us)

    return send


STREAMS: tuple[Mutant, ...] = (
    Mutant(
        "link never fails", "a link goes on over the next connection, whatever was lost with the first",
        frozenset(("2.7", "2.10", "2.13", "2.17")), TcpLink, "_fail", _never_fails, "streams",
    ),
    Mutant(
        "progress not told", "a link is not told that its connection has taken some of what waits",
        frozenset(("2.10", "2.17")), Streams, "stream_moved", _progress_not_told, "streams",
    ),
    Mutant(
        "connection's room ignored", "a link hands over all that it has, whatever still waits there",
        frozenset(("bounded",)), TcpLink, "_has_room", _room_ignored, "streams", seeds=20,
        shown_by=14,
    ),
    Mutant(
        "data dropped like beats", "what a connection has no room for is dropped, even if a link counts it",
        frozenset(("2.10", "2.17")), Exchange, "send", _dropped_when_much_waits, "streams", seeds=60,
    ),
)  # fmt: skip
