"""The verb `status`: ask a daemon about itself."""

from collections.abc import Iterator
from typing import Any

import msgspec
import typer
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from antiphon.cli.options import Address, Json
from antiphon.cli.screen import console
from antiphon.client import ask_status

SILENCE_MAX_US = 5_000_000
"""An open link hears a hello every second even if nobody sends anything."""
MEMBERS_SHOWN = 8
OTHER_CONFIGURATION = "packet: other configuration"

LINK_COLUMNS = {
    "to": "link to",
    "state": "state",
    "round_trip": "round trip",
    "in_flight_packets": "in flight",
    "packets_sent": "sent",
    "packets_received": "received",
    "retransmitted": "repeated",
}
GROUP_COLUMNS = {"group": "group", "count": "members", "names": "who, in the order of joining"}
SESSION_COLUMNS = {
    "name": "session",
    "groups": "groups",
    "sent_messages": "sent",
    "input_bytes": "input waits",
    "output_bytes": "output waits",
    "slow": "",
}


def status(address: Address = None, json: Json = False) -> None:
    """Show whether the cluster is whole, what ordering waits for, who is slow, and what goes on.

    Exits 0 if every link of the daemon at ADDRESS is open, 1 if one is not or no daemon answers.

    \b
    Example:
      antiphon status --address unix:/tmp/antiphon.sock --json
    """
    answer = ask_status(address)
    down = list(_links_down(answer))
    if json:
        print(msgspec.json.encode(answer).decode())
    else:
        out = console()
        for part in _parts(answer, down):
            out.print(part)
    if down:
        raise typer.Exit(1)


def _links_down(answer: dict[str, Any]) -> Iterator[str]:
    """Each link that does not work, and why."""
    for link in answer["links"]:
        if link["state"] != "open":
            yield f"link to {link['to']} is {link['state']}: {link['reason']}"
        elif link["silent_us"] > SILENCE_MAX_US:
            yield f"link to {link['to']} is silent: nothing came for {link['silent_us'] // 1_000_000} s"


def _parts(answer: dict[str, Any], down: list[str]) -> Iterator[RenderableType]:
    """What a person wants to know, the most important first; `--json` has the rest."""
    runtime = answer["runtime"]
    where = f"at site {answer['site']} of cluster {answer['cluster']}"
    yield f"daemon {answer['daemon']} {where}, process {runtime['pid']}"
    yield f"sites: {', '.join(answer['sites'])}"
    yield f"clients connect to: {', '.join(runtime['places']) or 'nowhere, the configuration names no place'}"
    yield from _verdict(answer, down)
    yield _ordering(answer["ordering"], answer["site"])
    yield from _delays(answer)
    if answer["links"]:
        rows = [link | {"round_trip": _round_trip(link)} for link in answer["links"]]
        yield _table(rows, LINK_COLUMNS)
    yield _table([_group(name, members) for name, members in answer["groups"].items()], GROUP_COLUMNS)
    yield _table(list(_sessions(answer)), SESSION_COLUMNS)
    for title, counters in (
        ("dropped input", answer["counters"]),
        ("sockets", runtime["udp"] | runtime["clients"]),
    ):
        counted = {name.replace("_", " "): count for name, count in counters.items() if count}
        yield f"{title}: {_cell(counted) or 'none'}"


def _verdict(answer: dict[str, Any], down: list[str]) -> Iterator[RenderableType]:
    links = answer["links"]
    if not links:
        yield Text("whole: a cluster of one site", style="bold green")
        return
    count = f"{len(links) - len(down)} of {_counted(len(links), 'link')} open"
    if down:
        yield Text(f"NOT WHOLE: {count}", style="bold red")
        for words in down:
            yield f"  {words}"
        if answer["counters"].get(OTHER_CONFIGURATION):
            yield "  packets of another configuration come in: do all daemons have the same file?"
        return
    linked = {answer["site"], *(link["to"] for link in links)}
    beyond = [site for site in answer["sites"] if site not in linked]
    rest = f"; {', '.join(beyond)} beyond them: ask there, too" if beyond else ""
    yield Text(f"whole: {count}{rest}", style="bold green")


def _ordering(ordering: dict[str, Any], site: str) -> str:
    """What delivery waits for. Bundles are held until every site is known to have them."""
    if not ordering["bundles_held"]:
        return "ordering: nothing waits"
    held = f"{_counted(ordering['bundles_held'], 'bundle')} ({ordering['bytes_held']:,} bytes)"
    lines = (
        ("agreed", ordering["agreed_line"], ordering["waits_for"]),
        ("safe", ordering["stable_line"], ordering["stability_waits_for"]),
    )
    waits = [
        f"{service} messages wait for {slowest}"
        for service, line, slowest in lines
        if line < ordering["clock"] and slowest != site
    ]
    return "; ".join([f"ordering: {held} not known to be everywhere", *waits])


def _delays(answer: dict[str, Any]) -> Iterator[str]:
    """Why senders must wait, if they must."""
    if answer["slow_sessions"]:
        yield f"all senders wait for slow receivers here: {_cell(answer['slow_sessions'])}"
    if answer["holding"]:
        yield f"all senders wait for slow receivers at: {_cell(answer['holding'])}"
    if not answer["accepting"] and not answer["slow_sessions"] and not answer["holding"]:
        yield "senders here wait until the other sites have caught up"


def _round_trip(link: dict[str, Any]) -> str:
    return f"{link['rtt_us'] / 1000:,.1f} ms" if link["state"] == "open" else "-"


def _group(name: str, members: list[str]) -> dict[str, Any]:
    more = len(members) - MEMBERS_SHOWN
    names = ", ".join(members[:MEMBERS_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
    return {"group": name, "count": len(members), "names": names}


def _sessions(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    output_bytes = answer["runtime"]["output_bytes"]
    for session in answer["sessions"]:
        yield session | {
            "output_bytes": output_bytes.get(str(session["number"]), 0),
            "slow": "slow" if session["name"] in answer["slow_sessions"] else "",
        }


def _table(rows: list[dict[str, Any]], columns: dict[str, str]) -> RenderableType:
    """The rows under their titles, or that there are none."""
    if not rows:
        return f"{next(iter(columns.values()))}s: none"
    table = Table(box=box.SIMPLE, show_edge=False)
    for key, title in columns.items():
        is_number = isinstance(rows[0][key], int)
        table.add_column(title, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row[key]) for key in columns))
    return table


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("s" if count != 1 else "")


def _cell(value: Any) -> str:
    match value:
        case int():
            return f"{value:,}"
        case dict():
            return ", ".join(f"{key} {_cell(item)}" for key, item in value.items())
        case list():
            return ", ".join(map(_cell, value))
        case _:
            return str(value)
