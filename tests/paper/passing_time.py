"""Time that passes only when a test lets it: one event after another."""

from abc import ABC, abstractmethod
from collections.abc import Callable

WITHIN_US = 60_000_000
"""Only to keep a failing test from running for ever."""


class PassingTime(ABC):
    """A world in which a step is the next thing that happens."""

    now_us: int

    @abstractmethod
    def step(self, end_us: int) -> bool:
        """The next thing happens; False if there is none before `end_us`."""

    def describe(self) -> str:
        """How the world stands, for a test that fails."""
        return f"it is {self.now_us} us"

    def run(self, for_us: int) -> None:
        """Let time pass."""
        end_us = self.now_us + for_us
        while self.step(end_us):
            pass
        self.now_us = end_us

    def until(self, condition: Callable[[], object], within_us: int = WITHIN_US) -> int:
        """Let things happen, one by one, until the condition holds; how long that took."""
        began_us = self.now_us
        while not condition():
            assert self.step(began_us + within_us), f"not within {within_us / 1e6} s: {self.describe()}"
        return self.now_us - began_us
