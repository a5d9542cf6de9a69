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

`parse` turns the text into a `Config` or raises a ConfigError: one sentence that names the line, the key and
what was expected. Nothing here touches a file: the runtime and the command line read it and hand over the
text.
"""

import tomllib

import msgspec

from antiphon.config.addresses import UNIX_PATH_MAX_BYTES, address, check_listener
from antiphon.config.checks import check
from antiphon.config.discovered import SLOTS, discovered, named
from antiphon.config.faults import Fault, explain, explain_syntax, read_complaint
from antiphon.config.key_lines import KeyLines
from antiphon.config.timing import Timing
from antiphon.config.values import (
    Config,
    DaemonConfig,
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
    "SLOTS",
    "UNIX_PATH_MAX_BYTES",
    "Config",
    "DaemonConfig",
    "Emulation",
    "LinkConfig",
    "OrderName",
    "Protocol",
    "Settings",
    "SiteConfig",
    "SiteProtocol",
    "Timing",
    "address",
    "as_toml",
    "build",
    "check_listener",
    "discovered",
    "named",
    "parse",
]


def parse(text: str, source: str = "configuration") -> Config:
    """The configuration in `text`, or a ConfigError. `source` is how messages call the text."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(explain_syntax(str(error), text, source)) from None
    except (RecursionError, ValueError) as error:
        raise ConfigError(f"{source}: not TOML that can be read: {error}") from None
    try:
        return check(*_convert(tree))
    except Fault as fault:
        raise ConfigError(explain(fault, source, KeyLines(text).of(fault.key))) from None


def build(
    sites: tuple[SiteConfig, ...],
    links: tuple[LinkConfig, ...] = (),
    settings: Settings | None = None,
    source: str = "configuration",
) -> Config:
    """A checked Config from its parts: the way in for programs, such as the simulator and the demo."""
    try:
        return check(sites, links, settings or Settings())
    except Fault as fault:
        raise ConfigError(explain(fault, source)) from None


def _convert(tree: dict[str, object]) -> tuple[tuple[SiteConfig, ...], tuple[LinkConfig, ...], Settings]:
    try:
        file = msgspec.convert(tree, File)
    except msgspec.ValidationError as error:
        raise read_complaint(str(error)) from None
    return file.site, file.link, file.cluster
