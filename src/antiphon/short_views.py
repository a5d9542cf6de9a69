"""Short names of views, for people: the last digits of their identifiers, and more of them where one output
needs more to tell two views apart.

Programs get whole identifiers (`--json`, traces): the one that ends in these digits is meant. A view of a
group is named after the message that made it, its third part; one that was made after a cut (thesis 6.1) has
behind a dash the daemon view that was about to follow, because the other side may have another view made by
the same message.
"""

import re
from itertools import islice

from antiphon.types import ViewId

_DIGITS = 6
_STEP = 2
_DIGITS_MAX = 20
"""More than any identifier has."""
_REMEMBERED = 10_000
"""A daemon's log may go on for years: what was named so long ago may share its name with a view of today."""
_TOLD = re.compile(
    r"\((?P<tuple>\d+, \d+, \d{7,}, \d+)\)|(?<![\d.])(?P<group>\d+\.\d+\.\d{7,}\.\d+)(?![\d.])"
    r"|(?<=view )(?P<daemons>\d{7,})(?!\d)"
)
"""How a sentence names a view of a group, or of daemons."""

Numbers = tuple[int, ...]
"""The parts of an identifier: four of a group's view, one of a view of daemons."""


class ShortViews:
    """Names within one output: no two views have the same."""

    def __init__(self) -> None:
        self._names: dict[Numbers, str] = {}
        self._owners: dict[str, Numbers] = {}

    def of(self, view: ViewId | int) -> str:
        """The name of a view, the same whenever it is asked for.

        >>> views = ShortViews()
        >>> views.of(1826384838276352001), views.of(1826384838376352001), views.of(1826384838276352001)
        ('352001', '76352001', '352001')
        >>> views.of(ViewId(1826384838276352001, 0, 1826384838276914002, 2))
        '914002'
        """
        numbers = (view,) if isinstance(view, int) else (view.epoch, view.branch, view.lts, view.daemon)
        return self._name(numbers)

    def within(self, text: str) -> str:
        """A sentence with short names for the views of which it tells.

        >>> ShortViews().within("view (1826384838276352, 0, 1826384838914002, 2) of g0 was cut")
        'view 914002 of g0 was cut'
        >>> ShortViews().within("daemon view 1826384838276352 came after 10.0.0.7 and 17")
        'daemon view 276352 came after 10.0.0.7 and 17'
        """
        return _TOLD.sub(lambda told: self._name(tuple(map(int, re.findall(r"\d+", told[0])))), text)

    def _name(self, numbers: Numbers) -> str:
        if numbers not in self._names:
            name = next(name for name in _candidates(numbers) if name not in self._owners)
            self._names[numbers] = name
            self._owners[name] = numbers
            for oldest in list(islice(self._names, max(0, len(self._names) - _REMEMBERED))):
                del self._owners[self._names.pop(oldest)]
        return self._names[numbers]


def _candidates(numbers: Numbers) -> list[str]:
    """Possible names, the shortest first; the last one is the whole identifier, and no other view is called
    like that: an equals sign tells it from the end of a longer one."""
    named, branch = (numbers[2], numbers[1]) if len(numbers) == 4 else (numbers[0], 0)
    found = []
    for digits in range(_DIGITS, _DIGITS_MAX, _STEP):
        parts = [named, branch] if branch else [named]
        found.append("-".join(str(part)[-digits:] for part in parts))
    return [*found, "=" + ".".join(map(str, numbers))]


_OF_THIS_PROCESS = ShortViews()


def short_view(view: ViewId | int) -> str:
    """The name of a view in whatever this process tells people."""
    return _OF_THIS_PROCESS.of(view)


def with_short_views(text: str) -> str:
    """A sentence in which this process tells people of views."""
    return _OF_THIS_PROCESS.within(text)
