"""Daemons that speak another version of the protocol between daemons: named, not only counted.

Nothing of what they send can be read but for its beginning (`wire.versions`). That is believed if it comes
from the address of the daemon that it names, with the digest of our configuration, and a second time in a
row: a packet whose version was damaged on its way is not followed by another one like it. What is known of a
daemon is forgotten as soon as something in our version comes from it.

The papers know one version only.
Checked by: tests/paper/test_other_versions.py.
"""

from collections.abc import Iterable

from msgspec import Struct

from antiphon.wire.packet import EVERYBODY
from antiphon.wire.versions import OtherVersion

PROOFS = 2
"""So many times in a row a version must be heard."""


class Heard(Struct, frozen=True):
    """The version that a daemon speaks."""

    what: str
    """"packet" or "greeting"."""
    version: int
    ours: int
    times: int = 1

    @property
    def words(self) -> str:
        """A text for people, to follow the daemon's name."""
        of = "" if self.what == "packet" else f" of {self.what}s"
        return f"speaks version {self.version}{of}, we speak {self.ours}"


class OtherVersions:
    """What one daemon knows of the versions of others."""

    def __init__(self, me: int, digest: int, neighbours: Iterable[int]) -> None:
        self._me = me
        self._digest = digest
        self._neighbours = frozenset(neighbours)
        self.heard: dict[int, Heard] = {}
        """By daemon, also what is not proven yet: one entry for each neighbour at most."""

    def hear(self, found: OtherVersion, origin: int | None = None) -> None:
        """Something in another version came, from the address of `origin` if that is known."""
        sender = found.sender
        if (
            found.digest != self._digest
            or found.receiver not in (self._me, EVERYBODY)
            or sender not in self._neighbours
            or origin not in (None, sender)
        ):
            return
        times = 1
        before = self.heard.get(sender)
        if before is not None and (before.what, before.version) == (found.what, found.version):
            times = min(PROOFS, before.times + 1)
        self.heard[sender] = Heard(found.what, found.version, found.ours, times)

    def forget(self, daemon: int) -> None:
        """Something in our version came."""
        self.heard.pop(daemon, None)

    def current(self) -> dict[int, Heard]:
        """The versions that are believed, by daemon."""
        return {daemon: heard for daemon, heard in sorted(self.heard.items()) if heard.times >= PROOFS}
