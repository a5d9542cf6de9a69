"""What a daemon of a cluster without a file has found out, in words."""

from collections.abc import Iterator
from typing import Any

from antiphon.words import duration, listed


def discovered_words(discovery: dict[str, Any] | None) -> Iterator[str]:
    """Where the cluster was found, who is in it, and who is gone for how long; nothing if there is a file."""
    if discovery is None:
        return
    where = f"{discovery['multicast']} over {discovery['interface']}"
    there = [f"{entry['name']} ({entry['number']})" for entry in discovery["roster"] if entry["is_there"]]
    yield f"found by its name at {where}; daemons with their numbers: {listed(there)}"
    for entry in discovery["roster"]:
        if entry["is_there"]:
            continue
        left = "stopped" if entry["has_left"] else "was last heard"
        kept_us = max(0, discovery["hold_us"] - entry["silent_us"])
        yield (
            f"  {entry['name']} at {entry['address']} {left} {duration(entry['silent_us'])} ago; number "
            f"{entry['number']} is reserved for another {duration(kept_us)}"
        )
    if discovery["trouble"]:
        yield f"  {discovery['trouble']}"
