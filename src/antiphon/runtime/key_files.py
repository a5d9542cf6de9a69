"""The files with a cluster's keys.

A key file is one line of text: a word and the secret. Nobody but its owner may read it; one that others can
read is refused, because it has to be taken for known to them. No error shows what stands in a file.
"""

import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from antiphon.config import Security
from antiphon.core.sealing.keys import SECRET_BYTES, ClusterKey, Keys, Suite
from antiphon.core.sealing.seal import Sealing
from antiphon.errors import ConfigError

WORD = "antiphon-key"
_FILE_MAX_BYTES = 4_096
_ADVICE = "make one with `antiphon config keygen`"
_TRIALS = 64
_TRIAL_BYTES = 1_400


def make(path: Path) -> ClusterKey:
    """A new key, in a file that is there only from now on; ConfigError if it cannot be written."""
    secret = os.urandom(SECRET_BYTES)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w") as file:
            os.fchmod(descriptor, 0o600)  # whatever the umask is
            file.write(f"{WORD} {secret.hex()}\n")
    except FileExistsError:
        raise ConfigError(
            f"{path}: there is such a file already, and a key may be in use; it stays"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    return ClusterKey(secret)


def read(path: Path) -> ClusterKey:
    """The key in a file; ConfigError otherwise."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                mode = stat.S_IMODE(found.st_mode)
                raise ConfigError(
                    f"{path}: others can read or change it (mode {mode:04o}); chmod 600, or {_ADVICE}"
                )
            if found.st_uid not in (os.geteuid(), 0):
                raise ConfigError(f"{path}: it belongs to another user, who knows the key then; {_ADVICE}")
            text = file.read(_FILE_MAX_BYTES)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; {_ADVICE}") from None
    word, _, secret = text.decode("ascii", "replace").strip().partition(" ")
    try:
        if word != WORD or len(secret) != 2 * SECRET_BYTES:
            raise ValueError
        return ClusterKey(bytes.fromhex(secret))
    except ValueError:
        raise ConfigError(f"{path}: this is no key; {_ADVICE}") from None


def keys_of(security: Security) -> Keys | None:
    """The keys that a configuration names; None if it names none. A next key may be missing: then there is
    none yet."""
    if not security.key_file:
        return None
    following = Path(security.next_key_file) if security.next_key_file else None
    return Keys(
        read(Path(security.key_file)),
        read(following) if following is not None and following.exists() else None,
    )


def check_exposed(name: str, places: Sequence[str], security: Security) -> None:
    """ConfigError if a daemon has no key, and other machines reach it at these places, unless that is what
    its configuration wants."""
    if places and not security.key_file and not security.insecure:
        raise ConfigError(
            f"daemon {name} has no key, and other machines reach it at {', '.join(places)}: make a key with "
            "`antiphon config keygen FILE`, and name its file as key_file in [security], or with --key-file; "
            "or say insecure = true there, or --insecure"
        )


def sealing_of(keys: Keys | None) -> Sealing | None:
    """How a daemon with these keys seals; None: it does not."""
    return None if keys is None else Sealing(keys, os.urandom, fastest())


_fastest: Suite | None = None


def fastest() -> Suite:
    """What this machine seals packets with faster, found out once per process in a few hundred
    microseconds."""
    global _fastest
    if _fastest is None:
        _fastest = min(Suite, key=_trial_ns)
    return _fastest


def _trial_ns(suite: Suite) -> int:
    """The least time that one packet takes."""
    key = ClusterKey(os.urandom(SECRET_BYTES))
    seal = key.cipher(0, 0, os.urandom(16), suite).encrypt
    body, head = bytes(_TRIAL_BYTES), bytes(40)
    best_ns = 1 << 62
    for number in range(_TRIALS):
        nonce = number.to_bytes(12, "big")
        began_ns = time.perf_counter_ns()
        seal(nonce, body, head)
        best_ns = min(best_ns, time.perf_counter_ns() - began_ns)
    return best_ns
