"""What is seen of the processes of a soak at one moment."""

import os
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from antiphon.load.crowds import resident_bytes

GROUPS, SESSIONS = "groups", "sessions"


class Look(Struct, frozen=True):
    """All processes at one moment; those that were dead then are missing."""

    second: float
    act: int
    at_rest: bool
    """Whether all clients have gone."""
    memory_bytes: dict[str, int]
    """Resident, by process."""
    descriptors: dict[str, int]
    waiting_bytes: dict[str, int]
    """In all buffers of a daemon together, and for its sessions; daemons that did not answer are missing."""
    overfull: tuple[str, ...] = ()
    """Buffers that held more than their limit, in words."""
    left_over: tuple[str, ...] = ()
    """What should be gone in a look at rest and is not, in words."""
    happened: tuple[str, ...] = ()
    """What happened since the look before, in words."""


def footprint(process: int) -> tuple[int, int] | None:
    """The resident memory and the open descriptors of a process; None if it has ended."""
    try:
        return resident_bytes(process), len(os.listdir(f"/proc/{process}/fd"))
    except OSError:
        return None


def waiting(told: dict[str, Any]) -> int:
    """All that waits at a daemon, given its status."""
    rows: Iterable[dict[str, int]] = told["buffers"].values()
    outputs: Iterable[int] = told["runtime"]["output_bytes"].values()
    return sum(row["bytes"] for row in rows) + sum(outputs)


def overfull(told: dict[str, Any]) -> list[str]:
    """The buffers that hold more than their limit."""
    return [
        f"{name} of {told['daemon']} held {row['bytes']:,} of {row['limit']:,} bytes"
        for name, row in told["buffers"].items()
        if row["bytes"] > row["limit"]
    ]


def left_over(told: dict[str, Any]) -> list[str]:
    """What a daemon without clients should not have."""
    daemon = told["daemon"]
    found = [f"{daemon} still has {len(told[what])} {what}" for what in (GROUPS, SESSIONS) if told[what]]
    if waiting(told):
        full = [name for name, row in told["buffers"].items() if row["bytes"]]
        found.append(f"{waiting(told):,} bytes still wait at {daemon} ({', '.join(full)})")
    trace = told["runtime"]["trace"]
    if trace["stopped"]:
        found.append(f"the trace of {daemon} has stopped: {trace['stopped']}")
    return found
