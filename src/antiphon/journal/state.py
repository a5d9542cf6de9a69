"""What a journal is a member of, written at the start of every segment so that a restart knows what was
before."""

import msgspec
from msgspec import Struct

from antiphon.wire.decoding import NOT_A_VALUE


class JournalState(Struct, frozen=True):
    """The membership of a journal at one offset."""

    name: str = ""
    """The private name of its session."""
    groups: tuple[str, ...] = ()
    views: dict[str, str] = {}
    """The view of each group."""

    def encode(self) -> bytes:
        """The bytes that stand in a segment."""
        return msgspec.json.encode(self)

    def with_view(self, group: str, view: str) -> "JournalState":
        """This state with another view of a group."""
        return JournalState(self.name, self.groups, {**self.views, group: view})


def decode_state(data: bytes) -> JournalState:
    """The state that `encode` made; an empty one for anything else."""
    try:
        return msgspec.json.decode(data, type=JournalState)
    except NOT_A_VALUE:
        return JournalState()


class Gap(Struct, frozen=True, omit_defaults=True):
    """The payload of a gap: what is known about what may be missing."""

    why: str
    """The reason, for people."""
    last_offset: int
    """The row before the gap; -1 if there is none."""
    last_delivered_us: int
    before: JournalState
    after: JournalState
    """`after.views` has the views in which the journal is a member again."""
    journal_before: str = ""
    """Set where the journal has another name since: offsets before the gap that were read may have been
    lost."""
    cut: tuple[str, ...] = ()
    """What the recovery had to cut off."""
    may_be_incomplete: bool = False
    """Whether `after.views` was written before all of them were known."""
