"""What is known when a door is done."""

from pathlib import Path

from msgspec import Struct

from antiphon.lab.soak.rules import Verdict


def peak_bytes(process: int) -> int | None:
    """The most memory that a process ever had; None if there is no such process."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return None
    rows = [line.split() for line in text.splitlines() if line.startswith("VmHWM:")]
    return int(rows[0][1]) * 1024 if rows else None


class FuzzEnding(Struct, frozen=True):
    """What is known when a door is done."""

    door: str
    mutants: int
    seconds: float
    restarts: int
    refused: dict[str, int]
    """What the daemons refused, by reason."""
    memory_bytes: dict[str, int]
    peak_bytes: dict[str, int]
    verdicts: tuple[Verdict, ...]
