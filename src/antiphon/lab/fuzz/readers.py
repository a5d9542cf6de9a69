"""The doors of files: what every reader of a file must do with one that may be wrong.

A file that is wrong is refused with one error of ours, in one line, in which no secret of the file stands.
What is accepted all the same must mean something, which each reader looks into. Whatever else happens is a
`Finding`.
"""

from random import Random
from typing import Protocol

from antiphon.errors import AntiphonError
from antiphon.lab.fuzz.mutate import Mutant

ERROR_MAX_CHARACTERS = 2_000
"""An error that is longer is no sentence for a person."""


class Finding(Exception):
    """A reader has done what it must not."""


class Reader(Protocol):
    """What reads the files of one kind."""

    def mutant(self, random: Random) -> Mutant:
        """A file that may be wrong."""

    def read(self, data: bytes) -> None:
        """Read it. AntiphonError if it is wrong; Finding for what must not be."""


def is_accepted(reader: Reader, data: bytes) -> bool:
    """Whether a file was accepted; Finding for whatever else than that, or one clear error."""
    try:
        reader.read(data)
    except Finding:
        raise
    except AntiphonError as error:
        words = str(error)
        if "\n" in words or not words or len(words) > ERROR_MAX_CHARACTERS:
            raise Finding(f"an error that is not one line: {words[:_SHOWN]!r}") from None
        return False
    except Exception as error:  # whatever a reader meets is what the door is about
        raise Finding(f"{type(error).__name__}: {error}"[:_SHOWN]) from error
    return True


_SHOWN = 300
