"""What a person should know about an import, and the one sentence for a file that cannot be read."""

from msgspec import Struct

from antiphon.errors import ConfigError

_SHOWN_MAX = 40
"""Characters of a faulty word that a message repeats."""


class Remark(Struct, frozen=True):
    """One difference between Spread's configuration and ours, with what Antiphon does instead."""

    line: int
    """The line of the file that was read; 0: the whole file."""
    subject: str
    """The option or whatever else the remark is about."""
    text: str
    is_warning: bool = False
    """Whether it is dangerous to overlook."""

    def told(self, source: str) -> str:
        """In one line.

        >>> Remark(7, "Window", "is not needed").told("spread.conf")
        'spread.conf:7: Window: is not needed'
        """
        place = f"{source}:{self.line}" if self.line else source
        return f"{place}: {'WARNING: ' if self.is_warning else ''}{self.subject}: {self.text}"


def fault(source: str, line: int, expected: str, found: str | None = None) -> ConfigError:
    """The error that says what was expected where, and what stood there instead."""
    return ConfigError(f"{source}:{line}: expected {expected}" + (f", got {found}" if found else ""))


def shown(word: str) -> str:
    """A word of the file, such that it fits into a message whatever it is.

    >>> shown("one\\ntwo")
    "'one\\\\ntwo'"
    """
    return ascii(word if len(word) <= _SHOWN_MAX else word[:_SHOWN_MAX] + "...")
