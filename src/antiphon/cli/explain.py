"""The verb `explain`: why the daemons' views changed."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from antiphon.cli.edge_status import edge_told, is_edge
from antiphon.cli.options import Address, Cluster, Json, address_of
from antiphon.cli.screen import show_json
from antiphon.client import ask_status
from antiphon.short_views import short_view
from antiphon.words import counted, duration, listed, printable, size


def explain(
    address: Address = None,
    cluster: Cluster = None,
    last: Annotated[
        int | None, typer.Option("--last", metavar="N", min=1, help="Only the newest N changes.")
    ] = None,
    json: Json = False,
) -> None:
    """Show why the daemon at ADDRESS changed its view: the last changes, oldest first.

    With the adaptive order, also which sources are active, for how long, and why. For an edge: its
    attachments, why it lost them, and which messages may be missing.

    \b
    Example:
      antiphon explain --last 3
    """
    answer = ask_status(address_of(address, cluster), groups=0, sessions=0)
    if is_edge(answer):
        _explain_edge(answer, last, json)
        return
    rounds = answer.get("rounds", [])
    for record in rounds[-last:] if last else rounds:
        if json:
            show_json(record)
        else:
            print(printable(told(record)))
    if not rounds and not json:
        print("nothing has changed yet")
    ordering = answer.get("ordering", {})
    if json:
        for role in ordering.get("roles", ()):
            show_json(role)
    else:
        for line in roles_told(ordering):
            print(printable(line))


def _explain_edge(answer: dict[str, Any], last: int | None, json: bool) -> None:
    if last:
        answer["history"] = answer["history"][-last:]
    if json:
        for record in answer["history"]:
            show_json(record)
        return
    for line in edge_told(answer):
        print(printable(line))


def roles_told(ordering: dict[str, Any]) -> Iterator[str]:
    """Who is waited for in the adaptive order, since when and why."""
    for role in ordering.get("roles", ()):  # daemons of an earlier version do not tell
        tickets = f", tickets from {role['sequencer']}" if role["sequencer"] is not None else ""
        since = duration(role["since_us_ago"])
        yield f"{role['source']} is {role['role']}{tickets} for {since}: {role['reason']}"


def told(record: dict[str, Any]) -> str:
    """A round in a few sentences; what a record does not have is not told."""
    return " ".join(_sentences(record))


def because(record: dict[str, Any]) -> str:
    """What began the round."""
    peer = f" ({record['peer']})" if record.get("peer") else ""
    return str(record.get("detail") or f"{record.get('reason', 'for an unknown reason')}{peer}")


def _sentences(record: dict[str, Any]) -> Iterator[str]:
    ago_us = record.get("ago_us")
    yield f"{duration(ago_us)} ago: {because(record)}." if ago_us is not None else f"{because(record)}."
    yield from changes(record)
    spent = ", ".join(f"{state} {duration(us)}" for state, us in record.get("states", ()))
    took_us = record.get("took_us")
    if took_us is None:
        took_us = sum(us for _, us in record.get("states", ()))
    ended = record.get("ended")
    if record.get("view") is not None:
        members = counted(len(record.get("members", ())), "daemon")
        yield f"New view {short_view(record['view'])} of {members} after {duration(took_us)}: {spent}."
    elif ended:
        yield f"No new view ({ended}) after {duration(took_us)}: {spent}."
    else:
        yield f"Still running{f': {spent}' if spent else ''}."
    for key, deed in (("recovered", "Recovered"), ("resent", "Retransmitted")):
        if record.get(f"{key}_bundles"):
            bundles = counted(record[f"{key}_bundles"], "bundle")
            yield f"{deed} {bundles} ({size(record.get(f'{key}_bytes', 0))})."


def changes(record: dict[str, Any]) -> Iterator[str]:
    """The daemons that were lost and those that came."""
    if record.get("lost"):
        yield f"Lost {listed(record['lost'])}."
    if record.get("joined"):
        yield f"Found {listed(record['joined'])}."
