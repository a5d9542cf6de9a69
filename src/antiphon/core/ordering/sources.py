"""What has come from one source of a view, as far as its numbers tell."""

from collections.abc import Iterator

from antiphon.core.ordering.order import Sender

_CLAIMS_MAX = 64


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

    @property
    def greatest(self) -> int:
        """The greatest number of a bundle that is known to exist."""
        claimed = self.claims[-1][0] if self.claims else 0
        return max([claimed, self.contiguous, *(last for last, _, _ in self.ahead.values())])

    def has(self, number: int) -> bool:
        """Whether a bundle has come, or is known to be for other sites."""
        return number <= self.contiguous or any(
            first <= number <= last for first, (last, _, _) in self.ahead.items()
        )

    def catch_up(self) -> Iterator[tuple[int, int]]:
        """Go on to the next gap; the lts and aru values that count from there on."""
        while (reached := self.ahead.pop(self.contiguous + 1, None)) is not None:
            self.contiguous, lts, aru = reached
            yield lts, aru
        yield from self.due_claims()

    def due_claims(self) -> Iterator[tuple[int, int]]:
        """Take the updates that wait for no bundle any more: their lts and aru values."""
        while self.claims and self.claims[0][0] <= self.contiguous:
            _, lts, aru = self.claims.pop(0)
            yield lts, aru

    def wait(self, number: int, lts: int, aru: int) -> None:
        """Keep an update until the bundles before it have come."""
        self.claims.append((number, lts, aru))
        self.claims.sort()
        if len(self.claims) > _CLAIMS_MAX:
            del self.claims[-2]  # the newest announces the most, the older ones apply sooner

    def forget_after(self, number: int) -> None:
        """Nothing that was told of later bundles counts."""
        self.ahead = {first: rest for first, rest in self.ahead.items() if rest[0] <= number}
        self.claims = [claim for claim in self.claims if claim[0] <= number]
