"""The links of a daemon in a view: of the protocol that the configuration names for each pair of sites."""

from collections.abc import Mapping

from antiphon.config import Config
from antiphon.core.effects import Datagram
from antiphon.core.links.hop import HopLink
from antiphon.core.links.link import Link
from antiphon.core.links.tcp import Stream, TcpLink
from antiphon.core.membership.view import DaemonView


def build(
    config: Config,
    view: DaemonView,
    *,
    me: int,
    peer: int,
    streams: Mapping[int, Stream],
    datagrams: list[Datagram],
    now_us: int,
) -> Link:
    """This daemon's end of its link to another member."""
    joined = config.link_between(me, peer)
    incarnation = view.incarnation(me)
    assert incarnation is not None
    peer_incarnation = view.incarnation(peer) or 0
    hello_us = config.settings.timing().hello_us
    if joined.protocol == "tcp":
        return TcpLink(
            me=me,
            peer=peer,
            digest=config.digest,
            view=view.id,
            incarnation=incarnation,
            peer_incarnation=peer_incarnation,
            hello_us=hello_us,
            window_bytes=joined.window_bytes,
            rate_bytes_per_s=joined.rate_bytes_per_s,
            stream=streams[peer],
            datagrams=datagrams,
            now_us=now_us,
        )
    return HopLink(
        me=me,
        peer=peer,
        digest=config.digest,
        view=view.id,
        incarnation=incarnation,
        peer_incarnation=peer_incarnation,
        hello_us=hello_us,
        packet_bytes=joined.packet_bytes,
        window_bytes=joined.window_bytes,
        rate_bytes_per_s=joined.rate_bytes_per_s,
        datagrams=datagrams,
        now_us=now_us,
    )
