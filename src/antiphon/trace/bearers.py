"""Who bears a name: private names are used again, processes are not.

A name is free again once its session's end is delivered at its own daemon. Whatever the old session did is
then at or below that daemon's clock, and whatever the new one will do is above it. So the clock at each
connect tells the sessions of one name apart in every view, wherever and whenever that view is read.
"""

from bisect import bisect_left


def process_name(name: str, place: int) -> str:
    """The process that was the `place`-th to bear a private name, from 1; no session can be called so.

    >>> process_name("#alice#d1", 1), process_name("#alice#d1", 2)
    ('#alice#d1', '#alice!2#d1')
    """
    if place == 1:
        return name
    session, _, daemon = name[1:].partition("#")
    return f"#{session}!{place}#{daemon}"


def private_name(process: str) -> str:
    """The name by which a process can be addressed.

    >>> private_name("#alice!2#d1")
    '#alice#d1'
    """
    session, _, daemon = process[1:].partition("#")
    return f"#{session.partition('!')[0]}#{daemon}"


class Bearers:
    """Every process that bore a name."""

    def __init__(self) -> None:
        self.has_heirs = False
        """Whether any name was used more than once."""
        self._births: dict[str, list[int]] = {}

    def born(self, name: str, clock_lts: int) -> str:
        """A session called `name` begins while its daemon's clock shows `clock_lts`; its process."""
        births = self._births.setdefault(name, [])
        births.append(clock_lts)
        if len(births) > 1:
            self.has_heirs = True
        return process_name(name, len(births))

    def meant(self, names: tuple[str, ...], lts: int) -> tuple[str, ...]:
        """The processes that a view with this lts means by `names`."""
        if not self.has_heirs:
            return names
        return tuple(process_name(name, bisect_left(self._births[name], lts)) for name in names)
