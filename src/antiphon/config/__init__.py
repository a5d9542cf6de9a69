"""The configuration: one TOML text, the same on every daemon.

    [cluster]
    name = "demo"
    delta_ms = 5.0              # the longest wait of an idle site between two updates
    membership = "lan"          # how long slow daemons are waited for at most: "lan", or "wan" for more

    [[site]]
    name = "east"

    [[site.daemon]]
    name = "east1"
    address = "127.0.0.1:4810"                                   # UDP, daemon to daemon
    clients = ["unix:/tmp/antiphon-east1.sock", "tcp:127.0.0.1:4811"]

    [[site]]
    name = "west"

    [[site.daemon]]
    name = "west1"
    address = "127.0.0.1:4820"

    [[site.daemon]]             # a site has one daemon or more
    name = "west2"
    address = "127.0.0.1:4830"

    [[link]]                    # without any [[link]], every pair of sites is joined at cost 1
    sites = ["east", "west"]
    cost = 30
    protocol = "hop"            # or "tcp", where UDP does not get through

    [security]                  # docs/how-to/seal-a-cluster.md, docs/how-to/secure-clients.md
    key_file = "cluster.key"    # `antiphon config keygen cluster.key` makes one
    next_key_file = "next.key"  # only while keys change; it may be missing
    access_file = "access.toml" # who may do what; read again while the daemon runs

    [security.tls]              # for places that begin with tls:
    certificate = "daemon.pem"
    key = "daemon.key"

    [[edge]]                    # in no view: for clients who mostly receive
    name = "hall"
    clients = ["tcp:127.0.0.1:4840"]
    attach = ["east1", "tcp:10.0.0.7:4811"]   # daemons or edges by name, or addresses; the first that works

`parse` turns the text into a `Config` or raises a ConfigError: one sentence that names the line, the key and
what was expected. Nothing here touches a file: the runtime and the command line read it and hand over the
text.
"""

import posixpath

import msgspec
from msgspec import structs

from antiphon.config.access import AccessFile, UserLimits, parse_access
from antiphon.config.addresses import OVER_NETWORK, UNIX_PATH_MAX_BYTES, address, check_listener
from antiphon.config.checks import check
from antiphon.config.discovered import SLOTS, discovered, named
from antiphon.config.faults import Fault, explain, read_complaint, read_toml
from antiphon.config.key_lines import KeyLines
from antiphon.config.security import Security, TlsConfig
from antiphon.config.timing import Timing
from antiphon.config.values import (
    Config,
    DaemonConfig,
    EdgeConfig,
    EdgeMulticast,
    Emulation,
    File,
    LinkConfig,
    OrderName,
    Protocol,
    Settings,
    SiteConfig,
    SiteProtocol,
)
from antiphon.config.writing import as_toml
from antiphon.errors import ConfigError

__all__ = [
    "OVER_NETWORK",
    "SLOTS",
    "UNIX_PATH_MAX_BYTES",
    "AccessFile",
    "Config",
    "DaemonConfig",
    "EdgeConfig",
    "EdgeMulticast",
    "Emulation",
    "LinkConfig",
    "OrderName",
    "Protocol",
    "Security",
    "Settings",
    "SiteConfig",
    "SiteProtocol",
    "Timing",
    "TlsConfig",
    "UserLimits",
    "address",
    "as_toml",
    "build",
    "check_listener",
    "discovered",
    "named",
    "parse",
    "parse_access",
    "resolved",
]


def parse(text: str, source: str = "configuration") -> Config:
    """The configuration in `text`, or a ConfigError. `source` is how messages call the text."""
    tree = read_toml(text, source)
    try:
        file = _convert(tree)
        return check(file.site, file.link, file.cluster, file.edge, file.security)
    except Fault as fault:
        raise ConfigError(explain(fault, source, KeyLines(text).of(fault.key))) from None


def build(
    sites: tuple[SiteConfig, ...],
    links: tuple[LinkConfig, ...] = (),
    settings: Settings | None = None,
    source: str = "configuration",
    edges: tuple[EdgeConfig, ...] = (),
    security: Security | None = None,
) -> Config:
    """A checked Config from its parts: the way in for programs, such as the simulator and the demo."""
    try:
        return check(sites, links, settings or Settings(), edges, security)
    except Fault as fault:
        raise ConfigError(explain(fault, source)) from None


def resolved(config: Config, folder: str) -> Config:
    """The configuration with the names of its files relative to the folder from which it was read."""
    security = config.security
    files = {name: posixpath.join(folder, path) for name in _FILES if (path := getattr(security, name))}
    tls = security.tls
    if tls is not None:
        found = {name: posixpath.join(folder, path) for name in _TLS_FILES if (path := getattr(tls, name))}
        tls = structs.replace(tls, **found)
    return structs.replace(config, security=structs.replace(security, tls=tls, **files))


_FILES = ("key_file", "next_key_file", "access_file")
_TLS_FILES = ("certificate", "key", "ca")


def _convert(tree: dict[str, object]) -> File:
    try:
        return msgspec.convert(tree, File)
    except msgspec.ValidationError as error:
        raise read_complaint(str(error)) from None
