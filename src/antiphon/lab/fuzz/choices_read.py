"""The door `config`: configurations, access lists, Spread's files, and files with secrets."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from antiphon import config as configuration
from antiphon.config import TlsConfig
from antiphon.errors import ConfigError
from antiphon.lab.fuzz.certificates import make_certificate
from antiphon.lab.fuzz.mutate import Mutant, mutate_bytes
from antiphon.lab.fuzz.readers import Finding, Reader
from antiphon.lab.fuzz.texts import mutate_text
from antiphon.runtime import key_files
from antiphon.runtime.access import AccessControl
from antiphon.runtime.secret_files import read_tokens
from antiphon.runtime.tls import daemon_context
from antiphon.spreadwire import config as spread_config

CLUSTER = b"""\
[cluster]
name = "fuzz"
membership = "lan"
order = "adaptive"
suspect_ms = 500.0
unstable_bytes = 1_000_000

[security]
key_file = "cluster.key"
next_key_file = "next.key"
access_file = "access.toml"
spread_from = ["10.0.0.0/8"]

[security.tls]
certificate = "daemon.pem"
key = "daemon.key"
client_certificates = "none"

[[site]]
name = "oslo"
protocol = "token-site"
tight_ms = 1.5

[[site.daemon]]
name = "oslo1"
address = "10.0.0.1:4810"
clients = ["unix:/tmp/oslo1.sock", "tls:10.0.0.1:4811"]
spread = 4803
time = "reference"
time_error_ms = 2.0

[[site.daemon]]
name = "oslo2"
address = "10.0.0.2:4810"

[[site]]
name = "lima"

[[site.daemon]]
name = "lima1"
address = "10.0.1.1:4810"
tcp_address = "10.0.1.1:4812"

[[link]]
sites = ["oslo", "lima"]
protocol = "hop"
cost = 2.0

[[edge]]
name = "edge1"
attach = ["oslo1"]
clients = ["unix:/tmp/edge1.sock"]
"""
ACCESS = b"""\
[limits]
sessions = 100

[[user]]
name = "operator"
unix = ["root", 1000]

[[user]]
name = "orders"
certificate = ["orders.example"]
token_file = "orders.token"
token_expires = "2999-12-31"
priority_max = 5
limits = { sessions = 20, bytes_per_s = 10_000_000 }

[[user]]
name = "guest"
anyone = true

[[allow]]
users = ["operator"]
groups = ["*"]
may = ["join", "send", "lock", "call", "status", "trace", "attach", "reload"]

[[allow]]
users = ["orders"]
groups = ["orders.*", "#*"]
may = ["join", "send"]
"""
SPREAD = b"""\
DebugFlags = { PRINT EXIT }
EventLogFile = testlog.out
TokenTimeout = 5000
DangerousMonitor = false
Spread_Segment  10.0.0.255:4803 {
    one   10.0.0.1 {
        D 10.0.0.1
        C 127.0.0.1
    }
    two   10.0.0.2
}
Spread_Segment  10.1.0.255:4803 {
    three 10.1.0.3
}
"""
KEY = b"antiphon-key " + bytes(range(32)).hex().encode() + b"\n"
TOKENS = b"first-token-of-the-experiment-0123456789\nsecond-token-of-the-experiment-9876543210\n"


def _text(data: bytes) -> str:
    """As all programs of ours read a file of choices."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError("not UTF-8 text") from None


class Text:
    """A text in lines, and what reads it."""

    def __init__(self, genuine: bytes, read: Callable[[bytes], None]) -> None:
        self._genuine = genuine
        self.read = read

    def mutant(self, random: Random) -> Mutant:
        return mutate_text(random, self._genuine)


class Secret:
    """A file with a secret, and what reads it: no error may show a line of it."""

    def __init__(self, path: Path, genuine: bytes, read: Callable[[Path], object]) -> None:
        path.touch(mode=0o600)
        self._path = path
        self._genuine = genuine
        self._read = read

    def mutant(self, random: Random) -> Mutant:
        return mutate_bytes(random, self._genuine)

    def read(self, data: bytes) -> None:
        self._path.write_bytes(data)
        try:
            self._read(self._path)
        except ConfigError as error:
            shown = str(error).encode("utf-8", "replace")
            for word in data.split():
                if len(word) >= _SECRET_BYTES and word in shown:
                    raise Finding(f"an error that shows what stands in a secret file: {error}") from None
            raise


_SECRET_BYTES = 12
"""Words of a file that are at least so long count as secrets."""


def _read_cluster(data: bytes) -> None:
    found = configuration.parse(_text(data), "cluster.toml")
    written = configuration.as_toml(found)
    if configuration.parse(written, "written") != found:
        raise Finding("a configuration that was written is read as another one")


def _read_spread(data: bytes) -> None:
    spread_config.import_file(_text(data), "spread.conf")


class _Access:
    """An access list with the files that it names."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "access.toml"
        tokens = folder / "orders.token"
        tokens.touch(mode=0o600)
        tokens.write_bytes(TOKENS)

    def __call__(self, data: bytes) -> None:
        self._path.write_bytes(data)
        AccessControl(self._path, 0)


def config_readers(folder: Path) -> dict[str, Reader]:
    """By kind; their files are in the folder."""
    files = make_certificate(folder)
    certificate, key = Path(files.certificate).read_bytes(), Path(files.key).read_bytes()
    (folder / "good.pem").write_bytes(certificate)
    good_key = folder / "good.key"
    good_key.touch(mode=0o600)
    good_key.write_bytes(key)
    return {
        "cluster": Text(CLUSTER, _read_cluster),
        "access": Text(ACCESS, _Access(folder)),
        "spread": Text(SPREAD, _read_spread),
        "key": Secret(folder / "cluster.key", KEY, key_files.read),
        "tokens": Secret(folder / "tokens", TOKENS, read_tokens),
        "certificate": Secret(
            folder / "daemon.pem",
            certificate,
            lambda path: daemon_context(TlsConfig(str(path), str(good_key))),
        ),
        "certificate-key": Secret(
            folder / "daemon.key",
            key,
            lambda path: daemon_context(TlsConfig(str(folder / "good.pem"), str(path))),
        ),
    }
