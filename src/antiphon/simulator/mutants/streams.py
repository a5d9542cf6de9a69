"""Mutants of links over TCP: what a programmer may believe about connections, and is wrong about."""

from antiphon.core.links.tcp import TcpLink
from antiphon.core.streams.streams import Streams
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


STREAMS: tuple[Mutant, ...] = (
    Mutant(
        "link never fails", "a link goes on over the next connection, whatever was lost with the first",
        frozenset(("standstill", "2.7", "2.10", "2.13", "2.17")), TcpLink, "_fail", _never_fails, "streams",
        shown_by=4,
    ),
    Mutant(
        "progress not told", "a link is not told that its connection has taken some of what waits",
        frozenset(("2.10", "2.17")), Streams, "stream_moved", _progress_not_told, "streams",
    ),
    Mutant(
        "connection's room ignored", "a link hands over all that it has, whatever still waits there",
        frozenset(("bounded",)), TcpLink, "_has_room", _room_ignored, "streams", seeds=120,
        shown_by=108,
    ),
)  # fmt: skip
