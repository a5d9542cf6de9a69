"""Traces in the making, whose every time is known."""

from itertools import count
from typing import Any

from antiphon.trace import Event, Record, Trace

MS = 1_000


class Story:
    """A trace in the making: each record follows the one before."""

    def __init__(self, run: str, *, live: bool = False, group: str = "tea") -> None:
        self._places = count()
        self._group = group
        sites = (f"{run}-oslo", f"{run}-perth")
        self.trace = Trace("story", 1, ("d0", "d1"), run=run, live=live, sites=sites)

    def note(self, time_ms: float, event: Event, daemon: str, process: str = "", **fields: Any) -> None:
        record = Record(next(self._places), int(time_ms * MS), event, daemon, process, **fields)
        self.trace.records.append(record)

    def bundle(self, times_ms: tuple[float, ...], first: int, messages: int, service: str) -> None:
        """Messages from `#a#d0` to `#b#d1` in one bundle: when they were sent, got their place, were held,
        had their turn, were delivered."""
        sent_ms, placed_ms, held_ms, turned_ms, delivered_ms = times_ms
        one = {"groups": (self._group,), "service": service}
        whole = {**one, "bundle": (1, 0, first), "message": (0, 9, 1, first), "count": messages}
        for number in range(first, first + messages):
            self.note(sent_ms, Event.SEND, "d0", "#a#d0", message=(0, 9, 1, number), **one)
        self.note(placed_ms, Event.SSEND, "d0", **whole)
        self.note(placed_ms, Event.HOLD, "d0", **whole)
        self.note(held_ms, Event.HOLD, "d1", **whole)
        self.note(turned_ms, Event.SDELIVER, "d1", **whole)
        for number in range(first, first + messages):
            self.note(delivered_ms, Event.DELIVER, "d1", "#b#d1", message=(0, 9, 1, number), **one)

    def states(self, daemon: str, *entered: tuple[float, str, str]) -> None:
        for time_ms, state, reason in entered:
            self.note(time_ms, Event.STATE, daemon, state=state, reason=reason)
