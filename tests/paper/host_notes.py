"""A host for the membership machine that only takes notes."""

from antiphon.core.ordering.stability import stamp_after
from antiphon.core.view import DaemonView


class Notes:
    """A Lamport clock, and what the host was told."""

    def __init__(self) -> None:
        self.clock = 1_024
        self.told: list[str] = []

    def tick(self) -> int:
        self.clock = stamp_after(self.clock, 0)
        return self.clock

    def witness(self, lts: int) -> None:
        self.clock = max(self.clock, lts)

    def freeze(self) -> None:
        self.told.append("freeze")

    def form(self, view: DaemonView, now_us: int) -> None:
        self.told.append(f"form {view.members}")

    def give_up(self) -> None:
        self.told.append("give up")

    def waits_for(self) -> tuple[int, ...]:
        return (1,)

    def tell_progress(self, now_us: int) -> None:
        self.told.append("tell progress")

    def entered(self, state: str, reason: str, now_us: int) -> None:
        self.told.append(f"{state}: {reason}")
