"""The configuration: one TOML text, the same on every daemon.

    [cluster]
    name = "demo"
    delta_ms = 5.0              # updates from idle sites: at once, but never more often than this

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

    [[link]]                    # without any [[link]], every pair of sites is joined at cost 1
    sites = ["east", "west"]
    cost = 30

`parse` turns the text into a `Config` or raises a ConfigError: one sentence that names the line, the key and
what was expected. Nothing here touches a file: the runtime and the command line read it and hand over the
text.
"""

import re
import tomllib
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from antiphon import limits
from antiphon.errors import ConfigError, UsageError
from antiphon.types import check_name

Key = tuple[str | int, ...]
"""Where a value stands in the file: names of keys and places in arrays."""

_AMOUNT_MAX = 1_000_000_000
"""Of anything: bytes, milliseconds or cost. Beyond it a number is a slip, and infinity is one."""

Positive = Annotated[float, Meta(gt=0, le=_AMOUNT_MAX)]
Milliseconds = Annotated[float, Meta(ge=0, le=_AMOUNT_MAX)]
Fraction = Annotated[float, Meta(ge=0, lt=1)]
BufferBytes = Annotated[int, Meta(ge=65_536, le=_AMOUNT_MAX)]
UNIX_PATH_MAX_BYTES = 107
"""What the kernel takes as the path of a unix socket."""


class Emulation(Struct, frozen=True, forbid_unknown_fields=True):
    """A wide-area path imitated on one machine: applied by the sending daemon to every packet."""

    delay_ms: Milliseconds = 0.0
    jitter_ms: Milliseconds = 0.0
    loss: Fraction = 0.0


class LinkConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The path between two sites."""

    sites: tuple[str, str]
    cost: Positive = 1.0
    packet_bytes: Annotated[int, Meta(ge=limits.PACKET_MIN_BYTES, le=limits.PACKET_MAX_BYTES)] = (
        limits.PACKET_DEFAULT_BYTES
    )
    window_bytes: BufferBytes = limits.LINK_WINDOW_MAX_BYTES
    rate_bytes_per_s: Annotated[int, Meta(ge=0, le=1000 * _AMOUNT_MAX)] = 0
    """A ceiling on the sending rate of each side; 0 leaves it to the congestion window."""
    emulate: Emulation | None = None


class DaemonConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One daemon: where its peers and its clients reach it."""

    name: str
    address: str
    clients: tuple[str, ...] = ()


class SiteConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Daemons that reach one another by one LAN packet."""

    name: str
    daemon: tuple[DaemonConfig, ...]


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """What a deployment may tune; the defaults suit a LAN and a WAN of moderate size."""

    name: str = "antiphon"
    delta_ms: Positive = 5.0
    unstable_bytes: BufferBytes = limits.UNSTABLE_MAX_BYTES
    output_soft_bytes: BufferBytes = limits.SESSION_OUTPUT_SOFT_BYTES
    output_hard_bytes: BufferBytes = limits.SESSION_OUTPUT_HARD_BYTES


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    site: tuple[SiteConfig, ...]
    cluster: Settings = Settings()
    link: tuple[LinkConfig, ...] = ()


class Config(Struct, frozen=True):
    """A checked configuration. A site's and a daemon's number is its place in the file, from 0."""

    settings: Settings
    sites: tuple[SiteConfig, ...]
    links: tuple[LinkConfig, ...]
    digest: int
    """Daemons with different configurations must not talk: this goes into every packet."""

    def site_number(self, name: str) -> int:
        """The number of the site called `name`, which must be one of ours."""
        return [site.name for site in self.sites].index(name)

    def daemons(self) -> list[tuple[int, DaemonConfig]]:
        """Every daemon with the number of its site, in the order of their numbers."""
        return [(number, daemon) for number, site in enumerate(self.sites) for daemon in site.daemon]

    def daemon_number(self, name: str) -> int:
        """The number of the daemon called `name`; a ConfigError that lists the known ones otherwise."""
        names = [daemon.name for _, daemon in self.daemons()]
        if name not in names:
            raise ConfigError(f"no daemon is called {name!r}; known: {', '.join(names)}")
        return names.index(name)


def parse(text: str, source: str = "configuration") -> Config:
    """The configuration in `text`, or a ConfigError. `source` is how messages call the text."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_explain_syntax(str(error), text, source)) from None
    except (RecursionError, ValueError) as error:
        raise ConfigError(f"{source}: not TOML that can be read: {error}") from None
    try:
        return _build(*_convert(tree))
    except _Fault as fault:
        raise ConfigError(_explain(fault, source, _Lines(text).of(fault.key))) from None


def build(
    sites: tuple[SiteConfig, ...],
    links: tuple[LinkConfig, ...] = (),
    settings: Settings | None = None,
    source: str = "configuration",
) -> Config:
    """A checked Config from its parts: the way in for programs, such as the simulator and the demo."""
    try:
        return _build(sites, links, settings or Settings())
    except _Fault as fault:
        raise ConfigError(_explain(fault, source)) from None


def address(text: str, what: str = "address") -> tuple[str, int]:
    """`host:port` as a pair, or a ConfigError.

    >>> address("127.0.0.1:4810")
    ('127.0.0.1', 4810)
    """
    match = re.fullmatch(r"(\[[^\[\]]+\]|[^\[\]\s]+):([0-9]{1,5})", text)
    if not match or int(match[2]) > 65_535:
        raise ConfigError(f"{what} {text!r} is not HOST:PORT, for example 127.0.0.1:4810")
    return match[1].strip("[]"), int(match[2])


def check_listener(listener: str) -> str:
    """`listener` if it names a place where clients can connect: `unix:PATH` or `tcp:HOST:PORT`."""
    scheme, _, place = listener.partition(":")
    if scheme == "tcp":
        address(place, "listener")
        return listener
    if scheme != "unix" or not place or "\0" in place:
        raise ConfigError(f"listener {listener!r} is neither unix:PATH nor tcp:HOST:PORT")
    if len(place.encode()) > UNIX_PATH_MAX_BYTES:
        raise ConfigError(f"listener {listener!r}: the path is longer than {UNIX_PATH_MAX_BYTES} bytes")
    return listener


# Checks that look at more than one value ------------------------------------------------------------------


class _Fault(Exception):
    """What is wrong, and where."""

    def __init__(self, key: Key, what: str) -> None:
        super().__init__(what)
        self.key = key
        self.what = what


def _build(sites: tuple[SiteConfig, ...], links: tuple[LinkConfig, ...], settings: Settings) -> Config:
    if settings.output_hard_bytes <= settings.output_soft_bytes:
        raise _Fault(("cluster", "output_hard_bytes"), "expected more than output_soft_bytes")
    _check_sites(sites)
    links = links or _every_pair(sites)
    _check_links(sites, links)
    digest = zlib.crc32(msgspec.json.encode((settings.name, sites, links)))
    return Config(settings=settings, sites=sites, links=links, digest=digest)


def _check_sites(sites: tuple[SiteConfig, ...]) -> None:
    if not sites:
        raise _Fault(("site",), "expected at least one [[site]]")
    if len(sites) > limits.SITES_MAX:
        raise _Fault(
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
    _no_repeats([((*key, "name"), daemon.name) for key, daemon in daemons], "daemon")
    _no_repeats([((*key, "address"), daemon.address) for key, daemon in daemons], "address")


def _check_site(site: SiteConfig, key: Key) -> None:
    with _fault_at((*key, "name")):
        check_name(site.name, "site", limits.GROUP_NAME_MAX_BYTES)
    if len(site.daemon) != 1:
        raise _Fault(
            (*key, "daemon"),
            f"expected exactly one [[site.daemon]] in site {site.name!r}, got {len(site.daemon)}: "
            "more are not supported today",
        )
    for place, daemon in enumerate(site.daemon):
        at = (*key, "daemon", place)
        with _fault_at((*at, "name")):
            check_name(daemon.name, "daemon", limits.DAEMON_NAME_MAX_BYTES)
        with _fault_at((*at, "address")):
            address(daemon.address)
        for index, listener in enumerate(daemon.clients):
            with _fault_at((*at, "clients", index)):
                check_listener(listener)


@contextmanager
def _fault_at(key: Key) -> Iterator[None]:
    """Whatever the check inside complains about stands at `key`."""
    try:
        yield
    except (UsageError, ConfigError) as error:
        raise _Fault(key, str(error)) from None


def _check_links(sites: tuple[SiteConfig, ...], links: tuple[LinkConfig, ...]) -> None:
    names = [site.name for site in sites]
    pairs: list[tuple[Key, str]] = []
    for number, link in enumerate(links):
        key = ("link", number, "sites")
        for place, name in enumerate(link.sites):
            if name not in names:
                raise _Fault((*key, place), f"no site is called {name!r}; known: {', '.join(names)}")
        if link.sites[0] == link.sites[1]:
            raise _Fault(key, f"expected two different sites, got {link.sites[0]!r} twice")
        pairs.append((key, "-".join(sorted(link.sites))))
    _no_repeats(pairs, "link")
    reached = {names[0]}
    for _ in sites:
        for link in links:
            if reached & set(link.sites):
                reached |= set(link.sites)
    apart = ", ".join(name for name in names if name not in reached)
    if apart:
        raise _Fault(
            ("link",), f"expected a chain of links from {names[0]!r} to every site; not reached: {apart}"
        )


def _every_pair(sites: tuple[SiteConfig, ...]) -> tuple[LinkConfig, ...]:
    return tuple(
        LinkConfig(sites=(one.name, other.name)) for i, one in enumerate(sites) for other in sites[i + 1 :]
    )


def _no_repeats(names: Sequence[tuple[Key, str]], what: str) -> None:
    seen: set[str] = set()
    for key, name in names:
        if name in seen:
            raise _Fault(key, f"the {what} {name!r} appears more than once")
        seen.add(name)


# Saying what is wrong, and on which line ------------------------------------------------------------------

_TABLES: dict[Key, type[Struct]] = {
    (): _File,
    ("cluster",): Settings,
    ("site",): SiteConfig,
    ("site", "daemon"): DaemonConfig,
    ("link",): LinkConfig,
    ("link", "emulate"): Emulation,
}
_WORDS = {
    "array": "an array",
    "bool": "a boolean",
    "date": "a date",
    "datetime": "a date",
    "float": "a number",
    "int": "an integer",
    "object": "a table",
    "object | null": "a table",
    "str": "a string",
    "time": "a time",
}


def _convert(tree: dict[str, object]) -> tuple[tuple[SiteConfig, ...], tuple[LinkConfig, ...], Settings]:
    try:
        file = msgspec.convert(tree, _File)
    except msgspec.ValidationError as error:
        raise _read_complaint(str(error)) from None
    return file.site, file.link, file.cluster


def _read_complaint(error: str) -> _Fault:
    """msgspec's complaint as a place and an expectation in the words of TOML."""
    what, _, path = error.partition(" - at `$")
    key: Key = tuple(int(index) if index else name for index, name in re.findall(r"\[(\d+)\]|\.(\w+)", path))
    names = tuple(part for part in key if isinstance(part, str))
    if what == "Expected `array`, got `object`":
        return _Fault(key, f"expected [[{'.'.join(names)}]] or an array, got a table")
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        return _Fault((*key, missing[1]), "expected this key, but it is missing")
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what, re.DOTALL):
        known = ", ".join(_TABLES[names].__struct_fields__)
        return _Fault((*key, unknown[1]), f"unknown key; expected one of: {known}")
    words = re.sub(r"`([^`]*)`", lambda match: _WORDS.get(match[1], match[1]), what)
    return _Fault(key, words[:1].lower() + words[1:])


def _explain(fault: _Fault, source: str, line: int | None = None) -> str:
    """One line: where (source, line, key), and what was expected there."""
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{_quoted(part)}" for part in fault.key)[1:]
    place = f"{source}, line {line}" if line else source
    return f"{place}, key {where}: {fault.what}"


def _quoted(name: str) -> str:
    """As TOML writes it: only a name that is not a plain word needs quotes."""
    return name if re.fullmatch(r"[\w-]+", name) else repr(name)


def _explain_syntax(error: str, text: str, source: str) -> str:
    """tomllib's complaint, which ends in its place, with the line where all our messages have it."""
    what, _, place = error.partition(" (at ")
    line = re.match(r"line (\d+)", place)
    number = line[1] if line else text.count("\n") + 1
    return f"{source}, line {number}: not TOML: {what[:1].lower()}{what[1:]}"


_TOKEN = re.compile(
    r'''(?P<skip>[ \t\r]+|\#[^\n]*)
    |(?P<text>"""(?:\\.|[^\\])*?"{3,5}|\'{3}.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')
    |(?P<word>[^\s\[\]{}=,."\'\#]+)
    |(?P<mark>[\[\]{}=,.\n])''',
    re.VERBOSE | re.DOTALL,
)


class _Lines:
    """The line of every key of a TOML text that tomllib has accepted (tomllib itself does not tell)."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, int]] = []
        line = 1
        for match in _TOKEN.finditer(text):
            if match.lastgroup != "skip":
                self._tokens.append((match[0], line))
            line += match[0].count("\n")
        self._tokens.append(("", line))
        self._at = 0
        self._lines: dict[Key, int] = {}
        self._sizes: dict[Key, int] = {}
        self._read_document()

    def of(self, key: Key) -> int:
        """The line of the value at `key`, or of the nearest thing around it that the file has."""
        while key and key not in self._lines:
            key = key[:-1]
        return self._lines.get(key, 1)

    def _read_document(self) -> None:
        table: Key = ()
        while token := self._tokens[self._at][0]:
            if token == "\n":
                self._at += 1
            elif token == "[":
                table = self._read_header()
            else:
                self._read_entry(table)

    def _read_header(self) -> Key:
        """The table that `[a.b]` or `[[a.b]]` opens; of an array of tables, the last so far."""
        brackets = 2 if self._tokens[self._at + 1][0] == "[" else 1
        self._at += brackets
        line = self._tokens[self._at][1]
        key: Key = ()
        parts = self._read_key()
        for left, part in enumerate(parts, start=1 - len(parts)):
            key = (*key, part)
            self._lines.setdefault(key, line)
            if left == 0 and brackets == 2:
                self._sizes[key] = self._sizes.get(key, 0) + 1
            if key in self._sizes:
                key = (*key, self._sizes[key] - 1)
                self._lines.setdefault(key, line)
        self._at += brackets
        return key

    def _read_entry(self, key: Key) -> None:
        line = self._tokens[self._at][1]
        for part in self._read_key():
            key = (*key, part)
            self._lines.setdefault(key, line)
        self._at += 1
        self._read_value(key)

    def _read_key(self) -> list[str]:
        parts = [self._read_part()]
        while self._tokens[self._at][0] == ".":
            self._at += 1
            parts.append(self._read_part())
        return parts

    def _read_part(self) -> str:
        part = self._tokens[self._at][0]
        self._at += 1
        return str(tomllib.loads(f"part = {part}")["part"]) if part[0] in "\"'" else part

    def _read_value(self, key: Key) -> None:
        opening = self._tokens[self._at][0]
        self._at += 1
        if opening == "[":
            place = 0
            while self._next_in("]"):
                self._lines[(*key, place)] = self._tokens[self._at][1]
                self._read_value((*key, place))
                place += 1
        elif opening == "{":
            while self._next_in("}"):
                self._read_entry(key)
        else:
            while self._tokens[self._at][0] not in (",", "]", "}", "\n", ""):
                self._at += 1

    def _next_in(self, closing: str) -> bool:
        """Go to the next value or entry of an array or a table; False, and behind it, at its end."""
        while self._tokens[self._at][0] in (",", "\n"):
            self._at += 1
        if self._tokens[self._at][0] != closing:
            return True
        self._at += 1
        return False
