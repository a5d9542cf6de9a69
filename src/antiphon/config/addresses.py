"""How addresses are written."""

import ipaddress
import re

from antiphon.errors import ConfigError

UNIX_PATH_MAX_BYTES = 107
"""What the kernel takes as the path of a unix socket."""


def address(text: str, what: str = "address") -> tuple[str, int]:
    """`host:port` as a pair, or a ConfigError.

    >>> address("127.0.0.1:4810")
    ('127.0.0.1', 4810)
    """
    match = re.fullmatch(r"(\[[^\[\]]+\]|[^\[\]\s]+):([0-9]{1,5})", text)
    if not match or int(match[2]) > 65_535:
        raise ConfigError(f"{what} {text!r} is not HOST:PORT, for example 127.0.0.1:4810")
    return match[1].strip("[]"), int(match[2])


def check_multicast(text: str) -> str:
    """`text` if it says whether to use IP multicast, and perhaps where."""
    if text in ("auto", "off"):
        return text
    host, _ = address(text, "multicast address")
    try:
        if ipaddress.IPv4Address(host).is_multicast:
            return text
    except ValueError:
        pass
    raise ConfigError(
        f"{text!r} is neither auto nor off nor a multicast address, for example 239.192.1.2:4900"
    )


OVER_NETWORK = ("tcp", "tls")
"""What a place begins with that other machines may reach: plain, and with TLS."""


def check_listener(listener: str) -> str:
    """`listener` if it names a place where clients can connect: `unix:PATH`, `tls:HOST:PORT` or
    `tcp:HOST:PORT`."""
    scheme, _, place = listener.partition(":")
    if scheme in OVER_NETWORK:
        address(place, "listener")
        return listener
    if scheme != "unix" or not place or "\0" in place:
        raise ConfigError(f"listener {listener!r} is not unix:PATH, tls:HOST:PORT or tcp:HOST:PORT")
    if len(place.encode()) > UNIX_PATH_MAX_BYTES:
        raise ConfigError(f"listener {listener!r}: the path is longer than {UNIX_PATH_MAX_BYTES} bytes")
    return listener
