"""A view of daemons: which are together, and over which links (thesis 6.1: Memb and Memb_id)."""

from functools import cached_property

from msgspec import Struct


class DaemonView(Struct, frozen=True, dict=True):
    """An agreed set of daemons."""

    id: int
    """A Lamport timestamp of the daemon that proposed it, greater than any identifier its members knew."""
    members: tuple[int, ...]
    """Daemon numbers, ascending."""
    incarnations: tuple[int, ...]
    """The incarnations of the members, in their order."""
    links: tuple[tuple[int, int], ...]
    """Pairs of members, the smaller one first: the overlay."""

    def incarnation(self, daemon: int) -> int | None:
        """The incarnation of a member; None for other daemons."""
        return self.incarnations[self.members.index(daemon)] if daemon in self.members else None

    def neighbours(self, daemon: int) -> tuple[int, ...]:
        """The members to which `daemon` has a link, ascending."""
        return self._neighbours.get(daemon, ())

    @cached_property
    def _neighbours(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, list[int]] = {}
        for one, other in self.links:
            found.setdefault(one, []).append(other)
            found.setdefault(other, []).append(one)
        return {daemon: tuple(sorted(others)) for daemon, others in found.items()}
