"""The folder of a journal: whose it is, who may write to it, and how its last writer ended.

lock             held by the one process that writes
journal.json     who the journal is, and whether its last writer ended in order
endpoint.json    where the running journal serves
*.arrows *.index the segments
*.damaged        bytes that were cut off because they were not what had been written
"""

import fcntl
import os
import uuid
from pathlib import Path

import msgspec
from msgspec import Struct

from antiphon.errors import UsageError
from antiphon.journal.errors import JournalError
from antiphon.journal.segment import replace_file
from antiphon.wire.decoding import NOT_A_VALUE

_LOCK = "lock"
_IDENTITY = "journal.json"
_ENDPOINT = "endpoint.json"
_BOOT_FILE = Path("/proc/sys/kernel/random/boot_id")
_FORMAT = 1


class Identity(Struct, frozen=True):
    """What `journal.json` holds."""

    format: int
    journal: str
    """Offsets are valid together with this name; it changes if rows that a reader may have got were lost."""
    boot: str
    """The boot of the machine in which the last writer began."""
    is_clean: bool
    """Whether the last writer ended in order."""
    is_synced: bool
    """Whether it showed rows to readers only when they were safe on disk."""


class Endpoint(Struct, frozen=True):
    """What `endpoint.json` holds."""

    endpoint: str
    journal: str
    groups: tuple[str, ...]
    process: int


class Folder:
    """A folder that this process, and no other, writes to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UsageError(f"cannot use {path} as the folder of a journal: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise UsageError(f"another journal is writing to {path}") from None

    def identity(self) -> Identity | None:
        """The identity of the journal; None in a new folder."""
        try:
            data = (self.path / _IDENTITY).read_bytes()
        except FileNotFoundError:
            return None
        try:
            identity = msgspec.json.decode(data, type=Identity)
        except NOT_A_VALUE as error:
            raise JournalError(f"{self.path / _IDENTITY} cannot be read: {error}") from None
        if identity.format != _FORMAT:
            raise JournalError(f"{self.path} has format {identity.format}, which this program does not know")
        return identity

    def begin(self, journal: str, *, is_synced: bool) -> Identity:
        """A writer begins; until `end` the journal counts as not ended in order."""
        (self.path / _ENDPOINT).unlink(missing_ok=True)  # of a writer that was killed
        identity = Identity(_FORMAT, journal, this_boot(), is_clean=False, is_synced=is_synced)
        self._write(_IDENTITY, identity)
        return identity

    def end(self, identity: Identity, *, is_clean: bool) -> None:
        """The writer has ended."""
        try:
            if is_clean:
                self._write(_IDENTITY, msgspec.structs.replace(identity, is_clean=True))
            (self.path / _ENDPOINT).unlink(missing_ok=True)
        finally:
            self.release()

    def release(self) -> None:
        """Let others write to the folder."""
        os.close(self._lock)

    def announce(self, endpoint: Endpoint) -> None:
        """Tell in the folder where the journal serves."""
        self._write(_ENDPOINT, endpoint)

    def _write(self, name: str, value: Struct) -> None:
        try:
            replace_file(self.path / name, msgspec.json.encode(value) + b"\n")
        except OSError as error:
            raise JournalError(f"cannot write {self.path / name}: {error.strerror}") from None


def read_endpoint(path: Path) -> Endpoint:
    """Where the journal with this folder serves, according to the folder."""
    try:
        return msgspec.json.decode((path / _ENDPOINT).read_bytes(), type=Endpoint)
    except (OSError, *NOT_A_VALUE):
        raise JournalError(f"no journal serves {path}") from None


def new_journal() -> str:
    """A name that no other journal has."""
    return uuid.uuid4().hex


def this_boot() -> str:
    """Tells one boot of this machine from another; empty where the system does not say."""
    try:
        return _BOOT_FILE.read_text().strip()
    except OSError:
        return ""
