"""What a spread.conf says: segments with their daemons, and options.

    file      := ( segment | option )*
    segment   := "Spread_Segment" address[":"port] extra-address* "{" daemon* "}"
    daemon    := ( name address | host | address ) [ "VirtualID" "=" number ] [ "{" interface* "}" ] [ ";" ]
    interface := ( "D" | "C" | "M" )* address
    option    := keyword [ "=" ( value | "{" word* "}" ) ]

Options that Spread does not know are kept if they look like options, so that they can be told.
"""

import ipaddress
import re

from msgspec import Struct

from antiphon.errors import ConfigError
from antiphon.spreadwire.config.options import KEYWORDS, YES_OR_NO, Option, nearest_keyword
from antiphon.spreadwire.config.remarks import fault
from antiphon.spreadwire.config.tokens import Token, tokens

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

SEGMENT = "Spread_Segment"
PORT = 4803
"""The port of a segment that names none."""
EXTRA_ADDRESSES_MAX = 5
INTERFACE_USES = "DCM"
"""Traffic of daemons, clients and monitors."""

_NUMBER = re.compile(r"[0-9]{1,9}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9.])?")


class Interface(Struct, frozen=True):
    """One of a daemon's own addresses."""

    uses: str
    """Letters of INTERFACE_USES; all of them if the file names none."""
    address: Address
    line: int


class SpreadDaemon(Struct, frozen=True):
    """A daemon of a segment."""

    name: str
    host: str | Address
    """A string is the name of a host."""
    interfaces: tuple[Interface, ...]
    """None: all that its machine has."""
    virtual_id: str
    """Empty if it has none."""
    line: int


class Segment(Struct, frozen=True):
    """Daemons that share a local network."""

    address: Address
    port: int
    extra_addresses: tuple[Address, ...]
    daemons: tuple[SpreadDaemon, ...]
    line: int


class SpreadFile(Struct, frozen=True):
    """The whole file."""

    segments: tuple[Segment, ...]
    options: tuple[Option, ...]
    last_line: int


def parse(text: str, source: str) -> SpreadFile:
    """What the text says, or a ConfigError."""
    return _Reader(text, source).file()


class _Reader:
    """Goes through the tokens; a method reads what it is named after and stands behind it then."""

    def __init__(self, text: str, source: str) -> None:
        self._tokens = tokens(text, source)
        self._source = source
        self._at = 0

    def file(self) -> SpreadFile:
        segments: list[Segment] = []
        options: list[Option] = []
        while (token := self._take()).kind != "end":
            if token.kind != "word":
                raise self._fault(token, f"{SEGMENT} or an option")
            if token.text == SEGMENT:
                segments.append(self._segment(token.line))
            else:
                options.append(self._option(token))
        return SpreadFile(tuple(segments), tuple(options), token.line)

    # Segments ---------------------------------------------------------------------------------------------

    def _segment(self, line: int) -> Segment:
        address, port = self._segment_address()
        extra: list[Address] = []
        while not self._next().is_mark("{"):
            token = self._take()
            extra.append(self._address(token, "an address or { after that of the segment"))
            if len(extra) > EXTRA_ADDRESSES_MAX:
                raise self._fault(token, f"at most {EXTRA_ADDRESSES_MAX} more addresses of the segment")
        self._take()
        daemons: list[SpreadDaemon] = []
        while not self._next().is_mark("}"):
            if self._is_outside():
                raise self._fault(self._next(), f"}} at the end of the segment that begins in line {line}")
            daemons.append(self._daemon())
        self._take()
        return Segment(address, port, tuple(extra), tuple(daemons), line)

    def _is_outside(self) -> bool:
        """Whether what follows cannot be a daemon, because it begins a segment or an option."""
        token = self._next()
        is_option = token.text in KEYWORDS and self._next(1).is_mark("=")
        return token.kind == "word" and (token.text == SEGMENT or is_option)

    def _segment_address(self) -> tuple[Address, int]:
        expected = "an IP address, or one and a port such as 225.0.1.1:4803"
        token = self._take()
        text, port = _split_port(token.text)
        address = _address(text)
        if token.kind != "word" or address is None:
            raise self._fault(token, expected)
        if port is None:
            return address, PORT
        if not (_NUMBER.fullmatch(port) and 1 <= int(port) <= 65_535):
            raise self._fault(token, "a port from 1 to 65535 after the address")
        return address, int(port)

    def _daemon(self) -> SpreadDaemon:
        token = self._take()
        if token.kind not in ("word", "string"):
            raise self._fault(token, "the name or address of a daemon, or }")
        host: str | Address
        if _looks_like_address(token):
            name, host = token.text, self._address(token, "an address")
        elif _looks_like_address(self._next()):
            name, host = token.text, self._address(self._take(), "the daemon's address")
        elif _HOST.fullmatch(token.text):
            name = host = token.text
        else:
            raise self._fault(token, "a daemon's name with its address, or the name of a host")
        virtual_id = self._virtual_id()
        interfaces = self._interfaces()
        if self._next().is_mark(";"):
            self._take()
        return SpreadDaemon(name, host, interfaces, virtual_id, token.line)

    def _virtual_id(self) -> str:
        # Without the sign of equality it is the next daemon, whatever its name.
        if self._next() != Token("word", "VirtualID", self._next().line) or not self._next(1).is_mark("="):
            return ""
        self._at += 2
        return self._number("VirtualID")

    def _interfaces(self) -> tuple[Interface, ...]:
        if not self._next().is_mark("{"):
            return ()
        self._take()
        found: list[Interface] = []
        while not (token := self._take()).is_mark("}"):
            line = token.line
            uses = ""
            while token.kind == "word" and len(token.text) == 1 and token.text in INTERFACE_USES:
                uses += token.text
                token = self._take()
            address = self._address(token, "D, C, M, an address of an interface, or }")
            found.append(Interface(uses or INTERFACE_USES, address, line))
        return tuple(found)

    def _address(self, token: Token, expected: str) -> Address:
        address = _address(token.text)
        if token.kind == "word" and address is not None:
            return address
        text, port = _split_port(token.text)
        if token.kind == "word" and port is not None and _address(text) is not None:
            raise self._fault(token, f"an address without a port, which only {SEGMENT} has")
        raise self._fault(token, expected)

    # Options ----------------------------------------------------------------------------------------------

    def _option(self, keyword: Token) -> Option:
        known = KEYWORDS.get(keyword.text)
        shape = known.shape if known else "anything"
        name = keyword.text if known else str(keyword)
        words: tuple[str, ...] = ()
        if self._next().is_mark("="):
            self._take()
            if shape == "nothing":
                raise self._fault(self._next(), f"no value for {name}")
            words = self._value(name, shape)
        elif known is None:
            near = nearest_keyword(keyword.text)
            hint = f" (perhaps {near})" if near else ""
            raise self._fault(keyword, f"{SEGMENT} or an option of Spread{hint}")
        elif shape == "anything" and self._next().is_mark("{"):
            words = self._braced(name)
        elif shape not in ("nothing", "text or nothing", "anything"):
            raise self._fault(self._next(), f"= and a value after {name}")
        return Option(keyword.text, words, keyword.line)

    def _value(self, name: str, shape: str) -> tuple[str, ...]:
        if shape == "flags" or (shape == "anything" and self._next().is_mark("{")):
            return self._braced(name)
        if shape == "number":
            return (self._number(name),)
        token = self._take()
        if shape == "yes or no" and token.text.lower() not in YES_OR_NO:
            raise self._fault(token, f"true or false after {name} =")
        if token.kind not in ("word", "string"):
            raise self._fault(token, f"a value after {name} =")
        return (token.text,)

    def _number(self, name: str) -> str:
        token = self._take()
        if token.kind != "word" or not _NUMBER.fullmatch(token.text):
            raise self._fault(token, f"a number of at most 9 digits after {name} =")
        return token.text

    def _braced(self, name: str) -> tuple[str, ...]:
        opening = self._take()
        if not opening.is_mark("{"):
            raise self._fault(opening, f"{{ after {name} =")
        words: list[str] = []
        while not (token := self._take()).is_mark("}"):
            if token.kind not in ("word", "string"):
                raise self._fault(token, f"}} at the end of {name}")
            words.append(token.text)
        return tuple(words)

    # Tokens -----------------------------------------------------------------------------------------------

    def _next(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _take(self) -> Token:
        token = self._next()
        self._at += 1
        return token

    def _fault(self, token: Token, expected: str) -> ConfigError:
        return fault(self._source, token.line, expected, str(token))


def _split_port(text: str) -> tuple[str, str | None]:
    """An address and its port, if it has one: `1.2.3.4:5` or `[::1]:5`; `::1:5` is all address."""
    address, colon, port = text.rpartition(":")
    if colon and (":" not in address or address.endswith("]")):
        return address, port
    return text, None


def _address(text: str) -> Address | None:
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
        if ":" not in text:
            return None
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    scope = address.scope_id if isinstance(address, ipaddress.IPv6Address) else None
    return None if scope and not re.fullmatch(r"[\w.-]{1,15}", scope, re.ASCII) else address


def _looks_like_address(token: Token) -> bool:
    """Whether it can be nothing but an address, even if it is a faulty one: no name has such letters."""
    if token.kind != "word":
        return False
    return re.fullmatch(r"[0-9.]*\.[0-9.]*(:.*)?|\[.*|[^:]*:[^:]*:.*", token.text) is not None
