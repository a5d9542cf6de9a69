"""The links of a daemon in a view: of the protocol that the configuration names for each pair of sites."""

from collections.abc import Mapping

from antiphon.config import Config
from antiphon.core.effects import Outbox
from antiphon.core.links.hop import HopLink
from antiphon.core.links.link import Ends, Link, Signs
from antiphon.core.links.tcp import Stream, TcpLink
from antiphon.core.membership.view import DaemonView


def signs_of(config: Config) -> Signs:
    """How often daemons look for signs of life of each other."""
    timing = config.settings.timing()
    return Signs(timing.hello_us, timing.ask_us)


def build(
    config: Config,
    view: DaemonView,
    *,
    me: int,
    peer: int,
    streams: Mapping[int, Stream],
    datagrams: Outbox,
    now_us: int,
) -> Link:
    """This daemon's end of its link to another member."""
    path = config.link_between(me, peer)
    incarnation = view.incarnation(me)
    assert incarnation is not None
    ends = Ends(me, peer, config.digest, view.id, incarnation, view.incarnation(peer) or 0)
    signs = signs_of(config)
    if path.protocol == "tcp":
        stream = streams[peer]
        return TcpLink(ends, path, stream=stream, signs=signs, datagrams=datagrams, now_us=now_us)
    return HopLink(ends, path, signs=signs, datagrams=datagrams, now_us=now_us)
