"""What can go wrong with a journal.

AntiphonError
 └── JournalError            one clear sentence; nothing was damaged by it
      ├── OffsetsRemoved     retention has removed these rows; `earliest` is the first that is left
      ├── OtherJournal       the offsets are those of another journal; find the place by its anchor
      ├── NoSuchPlace        this journal does not have the row that an anchor names
      └── JournalUnavailable no endpoint answered in the time given
"""

from antiphon.errors import AntiphonError


class JournalError(AntiphonError):
    """A journal could not do what was asked."""


class OffsetsRemoved(JournalError):
    """The rows asked for were removed by retention."""

    def __init__(self, text: str, earliest: int) -> None:
        super().__init__(text)
        self.earliest = earliest


class OtherJournal(JournalError):
    """The journal that answers is not the one that the offsets belong to."""


class NoSuchPlace(JournalError):
    """The row that an anchor names is not in this journal."""


class JournalUnavailable(JournalError):
    """No endpoint answered in the time given."""
