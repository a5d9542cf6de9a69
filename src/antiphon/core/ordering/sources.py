"""What has come from one source of a view, as far as its numbers tell."""

from antiphon.core.ordering.order import Sender


class Source:
    """What has come from one source."""

    __slots__ = ("ahead", "blocked", "claims", "contiguous")

    def __init__(self) -> None:
        self.contiguous = 0
        """Every bundle up to this number has come or was skipped."""
        self.ahead: dict[int, tuple[int, int, int]] = {}
        """First number after a gap -> (last number, lts, aru) of a bundle or range that came early."""
        self.claims: list[tuple[int, int, int]] = []
        """(number, lts, aru) of updates that wait for bundles before them."""
        self.blocked: set[Sender] = set()
        """The sessions with a bundle that waits for other numbers."""
