"""What the soak and its client processes say to one another: values that travel as JSON, one a line."""

from typing import Literal

from msgspec import Struct

Role = Literal["flood", "churn", "slow"]


class Orders(Struct, frozen=True):
    """What one client process is to do in every act."""

    role: Role
    homes: tuple[str, ...]
    """The places of its sessions' daemons."""
    places: tuple[str, ...]
    """Those of all daemons: a session that has lost its own goes on at the next."""
    trace: str
    """The folder for traces."""
    seed: int
    act_s: float


class Tally(Struct, frozen=True, tag="tally"):
    """What the sessions of one process did in an act."""

    sessions: int = 0
    sent: int = 0
    payload_bytes: int = 0
    received: int = 0
    warned: int = 0
    """Warnings to slow receivers."""
    returned: int = 0
    """Sessions that were lost and came back."""

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))


class Failed(Struct, frozen=True, tag="failed"):
    """The process could not go on."""

    reason: str


Report = Tally | Failed

BEGIN = "begin"
REST = "rest"
"""The two words that a client process hears: an act begins, and it ends."""
