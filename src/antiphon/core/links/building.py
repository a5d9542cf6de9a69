"""The links of a daemon in a view, of the protocols that the configuration names."""

from collections.abc import Mapping

from antiphon.config import Config
from antiphon.core.effects import Outbox
from antiphon.core.links.hop import HopLink
from antiphon.core.links.link import Ends, Link, Signs
from antiphon.core.links.ring import Ring
from antiphon.core.links.site import CheckData, CheckNumbering, Numbering, SiteLink
from antiphon.core.links.tcp import Stream, TcpLink
from antiphon.core.links.token_site import TokenSite
from antiphon.core.view import DaemonView


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
    ends = Ends(me, peer, config.digest, view.id, incarnation, view.incarnation(peer) or 0, datagrams.seal)
    signs = signs_of(config)
    if path.protocol == "tcp":
        stream = streams[peer]
        return TcpLink(ends, path, stream=stream, signs=signs, datagrams=datagrams, now_us=now_us)
    return HopLink(ends, path, signs=signs, datagrams=datagrams, now_us=now_us)


SITE_LINKS: dict[str, type[Ring] | type[TokenSite]] = {"ring": Ring, "token-site": TokenSite}
"""The protocols that a site can choose."""


def build_site_link(
    config: Config,
    view: DaemonView,
    segment: tuple[int, ...],
    *,
    me: int,
    numbering: Numbering,
    check_numbering: CheckNumbering,
    check_data: CheckData,
    datagrams: Outbox,
    now_us: int,
) -> SiteLink | None:
    """This daemon's end of the link of its segment; None if it is alone there."""
    if len(segment) == 1:
        return None
    make = SITE_LINKS[config.sites[config.site_of(me)].protocol]
    return make(
        me=me,
        members=segment,
        digest=config.digest,
        view=view.id,
        incarnations=dict(zip(view.members, view.incarnations, strict=True)),
        signs=signs_of(config),
        suspect_us=config.settings.timing().suspect_us,
        packet_bytes=config.link_between(me, me).packet_max_bytes,
        numbering=numbering,
        check_numbering=check_numbering,
        check_data=check_data,
        datagrams=datagrams,
        now_us=now_us,
    )
