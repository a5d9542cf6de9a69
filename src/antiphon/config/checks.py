"""Checks that look at more than one value."""

import ipaddress
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from antiphon import limits
from antiphon.config.addresses import address, check_listener, check_multicast
from antiphon.config.edge_checks import check_edges
from antiphon.config.faults import Fault, Key
from antiphon.config.security import Security
from antiphon.config.values import Config, DaemonConfig, EdgeConfig, LinkConfig, Settings, SiteConfig
from antiphon.errors import ConfigError, UsageError
from antiphon.types import check_name


def check(
    sites: tuple[SiteConfig, ...],
    links: tuple[LinkConfig, ...],
    settings: Settings,
    edges: tuple[EdgeConfig, ...] = (),
    security: Security | None = None,
) -> Config:
    """The configuration with these parts, or a Fault.

    Its digest leaves the settings out but for the cluster's name and its order: daemons that are tuned
    differently, also in the waits of their membership, still work together. It leaves the edges out, which
    take part in nothing that daemons must agree on.
    """
    _check_settings(settings)
    _check_sites(sites)
    links = links or _every_pair(sites)
    _check_links(sites, links)
    _check_streams(sites, links)
    check_edges(edges, {daemon.name: daemon.clients for site in sites for daemon in site.daemon})
    security = security or Security()
    _check_file_names(security)
    if security.next_key_file and not security.key_file:
        raise Fault(("security", "next_key_file"), "expected key_file, too: the key that this one follows")
    _check_security(security, sites, edges)
    order = () if settings.order == "symmetric" else (settings.order,)
    digest = zlib.crc32(msgspec.json.encode((settings.name, sites, links, *order)))
    return Config(settings=settings, sites=sites, links=links, digest=digest, edges=edges, security=security)


def _check_settings(settings: Settings) -> None:
    if settings.output_hard_bytes <= settings.output_soft_bytes:
        raise Fault(("cluster", "output_hard_bytes"), "expected more than output_soft_bytes")
    if settings.output_total_bytes < settings.output_hard_bytes:
        raise Fault(("cluster", "output_total_bytes"), "expected at least output_hard_bytes")
    timing = settings.timing()
    for less, more, less_us, more_us in (
        ("join_ms", "gather_ms", timing.join_us, timing.gather_us),
        ("suspect_ms", "recovery_ms", timing.suspect_us, timing.recovery_us),
        ("probe_ms", "probe_max_ms", timing.probe_us, timing.probe_max_us),
        ("damp_ms", "damp_max_ms", timing.damp_us, timing.damp_max_us),
    ):
        if less_us > more_us:
            at, bound, other, other_us = less, "most", more, more_us
            if getattr(settings, less) is None:  # then the greater one was set, and is to blame
                at, bound, other, other_us = more, "least", less, less_us
            raise Fault(("cluster", at), f"expected at {bound} {other}, which is {other_us / 1_000:g}")


def _check_sites(sites: tuple[SiteConfig, ...]) -> None:
    if not sites:
        raise Fault(("site",), "expected at least one [[site]]")
    if len(sites) > limits.SITES_MAX:
        raise Fault(
            ("site", limits.SITES_MAX), f"expected at most {limits.SITES_MAX} sites, got {len(sites)}"
        )
    for number, site in enumerate(sites):
        _check_site(site, ("site", number))
    _no_repeats([(("site", number, "name"), site.name) for number, site in enumerate(sites)], "site")
    daemons: list[tuple[Key, DaemonConfig]] = [
        (("site", number, "daemon", place), daemon)
        for number, site in enumerate(sites)
        for place, daemon in enumerate(site.daemon)
    ]
    if len(daemons) > limits.DAEMONS_MAX:
        raise Fault(
            daemons[limits.DAEMONS_MAX][0],
            f"expected at most {limits.DAEMONS_MAX} daemons in all sites together, got {len(daemons)}",
        )
    _no_repeats([((*key, "name"), daemon.name) for key, daemon in daemons], "daemon")
    _no_repeats([((*key, "address"), daemon.address) for key, daemon in daemons], "address")
    streams = [((*key, "tcp_address"), daemon.stream_address) for key, daemon in daemons]
    _no_repeats(streams, "TCP address")


def _check_site(site: SiteConfig, key: Key) -> None:
    with _fault_at((*key, "name")):
        check_name(site.name, "site", limits.GROUP_NAME_MAX_BYTES)
    if not site.daemon:
        raise Fault((*key, "daemon"), f"expected at least one [[site.daemon]] in site {site.name!r}")
    with _fault_at((*key, "multicast")):
        check_multicast(site.multicast)
    if len(site.daemon) > limits.DAEMONS_PER_SITE_MAX:
        raise Fault(
            (*key, "daemon", limits.DAEMONS_PER_SITE_MAX),
            f"expected at most {limits.DAEMONS_PER_SITE_MAX} daemons in site {site.name!r}, "
            f"got {len(site.daemon)}",
        )
    for place, daemon in enumerate(site.daemon):
        at = (*key, "daemon", place)
        with _fault_at((*at, "name")):
            check_name(daemon.name, "daemon", limits.DAEMON_NAME_MAX_BYTES)
        with _fault_at((*at, "address")):
            address(daemon.address)
        if daemon.tcp_address is not None:
            with _fault_at((*at, "tcp_address")):
                address(daemon.tcp_address)
        for index, listener in enumerate(daemon.clients):
            with _fault_at((*at, "clients", index)):
                check_listener(listener)
        for index, listener in enumerate(daemon.spread_places):
            with _fault_at((*at, "spread", index) if isinstance(daemon.spread, tuple) else (*at, "spread")):
                check_listener(listener)
                if listener in daemon.clients:
                    raise ConfigError(f"{listener!r} is among `clients`, too: a place speaks one language")


@contextmanager
def _fault_at(key: Key) -> Iterator[None]:
    """Whatever the check inside complains about stands at `key`."""
    try:
        yield
    except (UsageError, ConfigError) as error:
        raise Fault(key, str(error)) from None


def _check_links(sites: tuple[SiteConfig, ...], links: tuple[LinkConfig, ...]) -> None:
    names = [site.name for site in sites]
    pairs: list[tuple[Key, str]] = []
    for number, link in enumerate(links):
        key = ("link", number, "sites")
        for place, name in enumerate(link.sites):
            if name not in names:
                raise Fault((*key, place), f"no site is called {name!r}; known: {', '.join(names)}")
        if link.sites[0] == link.sites[1]:
            raise Fault(key, f"expected two different sites, got {link.sites[0]!r} twice")
        pairs.append((key, "-".join(sorted(link.sites))))
    _no_repeats(pairs, "link")
    reached = {names[0]}
    for _ in sites:
        for link in links:
            if reached & set(link.sites):
                reached |= set(link.sites)
    apart = ", ".join(name for name in names if name not in reached)
    if apart:
        raise Fault(
            ("link",), f"expected a chain of links from {names[0]!r} to every site; not reached: {apart}"
        )


def _check_streams(sites: tuple[SiteConfig, ...], links: tuple[LinkConfig, ...]) -> None:
    """What TCP between daemons asks for."""
    joined: set[str] = set()
    for number, link in enumerate(links):
        if link.protocol != "tcp":
            continue
        joined.update(link.sites)
        if link.emulate is not None:
            raise Fault(
                ("link", number, "emulate"), 'expected protocol = "hop": only its packets can be held back'
            )
    for number, site in enumerate(sites):
        for place, daemon in enumerate(site.daemon):
            taken = f"tcp:{daemon.stream_address}"
            if site.name in joined and taken in daemon.clients:
                raise Fault(
                    ("site", number, "daemon", place, "clients", daemon.clients.index(taken)),
                    "expected another port: other daemons connect to this one; or set tcp_address",
                )


def _check_security(security: Security, sites: tuple[SiteConfig, ...], edges: tuple[EdgeConfig, ...]) -> None:
    """Whether what TLS needs is there. What is plain is looked at when a daemon knows its addresses."""
    tls = security.tls
    if tls is not None and tls.client_certificates != "none" and not tls.ca:
        raise Fault(("security", "tls"), "expected ca: the roots that certificates of clients come from")
    for index, network in enumerate(security.spread_from):
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise Fault(("security", "spread_from", index), f"expected a network: {error}") from None
    places: list[tuple[Key, str]] = [
        (("site", number, "daemon", place, "clients", index), listener)
        for number, site in enumerate(sites)
        for place, daemon in enumerate(site.daemon)
        for index, listener in enumerate(daemon.clients)
    ]
    for number, edge in enumerate(edges):
        places += [(("edge", number, "clients", index), one) for index, one in enumerate(edge.clients)]
    for number, site in enumerate(sites):
        for place, daemon in enumerate(site.daemon):
            if any(listener.startswith("tls:") for listener in daemon.spread_places):
                key: Key = ("site", number, "daemon", place, "spread")
                raise Fault(key, "expected tcp: or unix:, because Spread's clients do not speak TLS")
    for key, listener in places:
        if listener.startswith("tls:") and tls is None:
            raise Fault(key, "expected [security.tls] with certificate and key, which tls: needs")


def _every_pair(sites: tuple[SiteConfig, ...]) -> tuple[LinkConfig, ...]:
    return tuple(
        LinkConfig(sites=(one.name, other.name)) for i, one in enumerate(sites) for other in sites[i + 1 :]
    )


def _no_repeats(names: Sequence[tuple[Key, str]], what: str) -> None:
    seen: set[str] = set()
    for key, name in names:
        if name in seen:
            raise Fault(key, f"the {what} {name!r} appears more than once")
        seen.add(name)


def _check_file_names(security: Security) -> None:
    """Fault for a name that no file can have: the system would refuse it in a way of its own."""
    named: list[tuple[Key, str]] = [
        (("security", name), getattr(security, name)) for name in ("key_file", "next_key_file", "access_file")
    ]
    if security.tls is not None:
        for name in ("certificate", "key", "ca"):
            named.append((("security", "tls", name), getattr(security.tls, name)))
    for key, path in named:
        if "\0" in path:
            raise Fault(key, "expected the name of a file")
