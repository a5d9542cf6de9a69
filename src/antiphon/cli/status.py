"""The verb `status`: ask a daemon about itself."""

from collections.abc import Iterator
from typing import Any

import msgspec
from rich import box
from rich.console import RenderableType
from rich.table import Table

from antiphon.cli.options import Address, Json
from antiphon.cli.screen import console
from antiphon.client import ask_status
from antiphon.client._opening import addresses

LINK_COLUMNS = {
    "to": "link to",
    "protocol": "protocol",
    "state": "state",
    "reason": "because",
    "rtt_us": "rtt us",
    "in_flight_packets": "in flight",
    "packets_sent": "sent",
    "packets_received": "received",
    "retransmitted": "repeated",
}
SESSION_COLUMNS = {
    "name": "session",
    "priority": "priority",
    "groups": "groups",
    "sent_messages": "sent",
    "input_bytes": "waiting bytes",
}
BUFFER_COLUMNS = {"name": "buffer in use", "bytes": "bytes", "count": "count", "limit": "limit"}


def status(address: Address = None, json: Json = False) -> None:
    """Show what the daemon at ADDRESS knows: sites, links, groups, sessions, ordering, counters.

    \b
    Example:
      antiphon status --address unix:/tmp/antiphon.sock --json
    """
    answer = ask_status(addresses(address)[0])
    if json:
        print(msgspec.json.encode(answer).decode())
        return
    out = console()
    for part in _parts(answer):
        out.print(part)


def _parts(answer: dict[str, Any]) -> Iterator[RenderableType]:
    """What a person wants to know, the most important first; `--json` has the rest."""
    runtime = answer["runtime"]
    yield f"daemon {answer['daemon']} of cluster {answer['cluster']}, process {runtime['pid']}"
    yield f"clients connect to {', '.join(runtime['places']) or 'no place'}"
    yield f"sites: {', '.join(answer['sites'])}"
    yield f"ordering: {_cell(answer['ordering'])}"
    if not answer["accepting"]:
        yield "senders are held back until other sites catch up"
    if answer["holding"]:
        yield f"senders are held back because of slow receivers at: {_cell(answer['holding'])}"
    yield _table(answer["links"], LINK_COLUMNS)
    yield _table(
        [{"group": name, "members": members} for name, members in answer["groups"].items()],
        {"group": "group", "members": "members"},
    )
    yield _table(answer["sessions"], SESSION_COLUMNS)
    buffers = [{"name": name, **use} for name, use in answer["buffers"].items()]
    yield _table([use for use in buffers if use.get("bytes") or use.get("count")], BUFFER_COLUMNS)
    for title, counters in (
        ("counters", answer["counters"]),
        ("sockets", runtime["udp"] | runtime["clients"]),
    ):
        counted = {name: count for name, count in counters.items() if count}
        yield f"{title}: {_cell(counted) or 'nothing counted'}"


def _table(rows: list[dict[str, Any]], columns: dict[str, str]) -> RenderableType:
    """The rows under their titles, or that there are none."""
    if not rows:
        return f"{next(iter(columns.values()))}: none"
    shown = {key: title for key, title in columns.items() if any(key in row for row in rows)}
    table = Table(*shown.values(), box=box.SIMPLE, show_edge=False)
    for row in rows:
        table.add_row(*(_cell(row.get(key)) for key in shown))
    return table


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case dict():
            return ", ".join(f"{key} {_cell(item)}" for key, item in value.items())
        case list():
            return ", ".join(map(_cell, value))
        case _:
            return str(value)
