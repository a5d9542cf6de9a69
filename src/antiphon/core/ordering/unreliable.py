"""Unreliable bundles, which stand outside of the order (thesis 5.1: delivered when they come, or never)."""

from antiphon import limits


class Unreliable:
    """Duplicate elimination for unreliable bundles, which stand outside of the order."""

    def __init__(self) -> None:
        self._seen: dict[int, None] = {}

    def is_new(self, number: int) -> bool:
        if number in self._seen:
            return False
        self._seen[number] = None
        if len(self._seen) > limits.UNRELIABLE_MEMORY:
            del self._seen[next(iter(self._seen))]
        return True
