"""Mutants of links over TCP: what a programmer may believe about connections, and is wrong about."""

from antiphon.core.links.link import LinkState
from antiphon.core.links.tcp import TcpLink
from antiphon.core.streams.channel import Channel
from antiphon.core.streams.exchange import Exchange
from antiphon.core.streams.streams import Streams
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.wire.streams import Answer, Greeting


def _goes_on(original: Original) -> Original:
    """Each connection begins anew to count, so that no gap is seen."""

    def disconnected(link: TcpLink, reason: str) -> None:
        link._sent = link._received = 0

    return disconnected


def _progress_not_told(original: Original) -> Original:
    def stream_moved(streams: Streams, peer: int, waiting_bytes: int, now_us: int) -> None:
        if not waiting_bytes:
            streams.states[peer].waiting_bytes = 0

    return stream_moved


def _room_ignored(original: Original) -> Original:
    def has_room(link: TcpLink, now_us: int) -> bool:
        return True

    return has_room


def _speaks_at_once(original: Original) -> Original:
    def connected(link: TcpLink, now_us: int) -> None:
        original(link, now_us)
        link.state = LinkState.OPEN
        link.pump(now_us)

    return connected


def _both_refuse(original: Original) -> Original:
    def let_in(exchange: Exchange, channel: Channel, said: Greeting, now_us: int) -> None:
        if exchange._lines[said.sender].open is not None:
            exchange._refuse(channel, said, Answer.CROSSED, now_us)
        else:
            original(exchange, channel, said, now_us)

    return let_in


def _loss_kept_to_itself(original: Original) -> Original:
    def stream_lost(streams: Streams, peer: int, reason: str, now_us: int) -> None:
        streams.states[peer].is_up = False

    return stream_lost


def _hello_on_no_connection(original: Original) -> Original:
    def say_hello(link: TcpLink, now_us: int, echo_us: int) -> None:
        link.heard_us = now_us
        original(link, now_us, echo_us)

    return say_hello


STREAMS: tuple[Mutant, ...] = (
    Mutant(
        "link outlives its connection", "a link goes on over the next connection as if nothing had been lost",
        frozenset(("2.7", "2.10", "2.13", "2.17")), TcpLink, "disconnected", _goes_on, "streams", seeds=60,
    ),
    Mutant(
        "progress not told", "a link is not told that its connection has taken some of what waits",
        frozenset(("2.10", "2.17")), Streams, "stream_moved", _progress_not_told, "streams", seeds=60,
    ),
    Mutant(
        "connection's room ignored", "a link hands over all that it has, whatever still waits there",
        frozenset(("bounded",)), TcpLink, "_has_room", _room_ignored, "streams", seeds=60,
    ),
    Mutant(
        "speaks before it is heard", "a link sends data before the other side has built its end",
        frozenset(("2.10", "2.17")), TcpLink, "connected", _speaks_at_once, "streams", seeds=60,
    ),
    Mutant(
        "old connection for ever", "a daemon lets nobody in to whom it believes to have a connection",
        frozenset(("2.10", "2.17")), Exchange, "_let_in", _both_refuse, "streams", seeds=60,
    ),
    Mutant(
        "loss kept to itself", "links are not told that their connection broke",
        frozenset(("2.10", "2.17")), Streams, "stream_lost", _loss_kept_to_itself, "streams", seeds=60,
    ),
    Mutant(
        "own voice heard", "a daemon takes what it says itself for a sign of life of the other side",
        frozenset(("2.10", "2.17")), TcpLink, "_say_hello", _hello_on_no_connection, "streams", seeds=60,
    ),
)  # fmt: skip
