"""What `status` and `explain` say of edges: of one that is asked, and of those at a daemon."""

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from antiphon.short_views import short_view
from antiphon.words import counted, duration, listed, size

EDGE_COLUMNS = {
    "name": "edge",
    "state": "state",
    "groups": "groups",
    "receivers": "receivers",
    "behind_items": "behind by",
    "gaps": "gaps",
}
STATES = {"fed": "fed", "behind": "catching up", "standby": "standby"}


def is_edge(answer: dict[str, Any]) -> bool:
    """Whether an edge has given this status."""
    return "edge" in answer


def edge_faults(answer: dict[str, Any]) -> Iterator[str]:
    """Each thing that keeps an edge from getting everything."""
    if answer["attachment"] is None:
        yield f"no attachment for {duration(answer['unattached_us'])}"
        for place in answer["attachments"]:
            if place["reason"]:
                yield f"{place['address']}: {place['reason']}"
        return
    flow = answer["flow"]
    if flow["waiting"]:
        yield f"groups that do not flow yet: {listed(flow['waiting'])}"


def edge_words(answer: dict[str, Any], faults: list[str]) -> Iterator[RenderableType]:
    """What a person wants to know of an edge, without its groups and sessions."""
    runtime = answer["runtime"]
    yield f"edge {answer['edge']}, in no view, process {runtime['pid']}"
    yield f"clients connect to: {', '.join(runtime['places'])}"
    if faults:
        is_alone = answer["attachment"] is None
        yield Text("NOT ATTACHED" if is_alone else "ATTACHED, BUT SOME GROUPS DO NOT FLOW", style="bold red")
        for words in faults:
            yield f"  {words}"
    else:
        yield Text("attached, all groups flow", style="bold green")
    if answer["attachment"] is not None:
        yield f"attached to {_connection(answer, answer['attachment'])}"
    if answer["standby"] is not None:
        yield f"standby: {_connection(answer, answer['standby'])}"
    elif len(answer["attachments"]) > 1:
        yield Text("no standby", style="bold")
    if answer.get("hierarchy") is not None:
        yield _role(answer["hierarchy"])
    yield from _multicast(answer)
    place, flow = answer["position"], answer["flow"]
    if place is not None:
        yield f"place in the feed: {place['place']} of view {short_view(place['view'])}"
    yield (
        f"groups: {flow['flowing']:,} of {flow['groups']:,} flow; "
        f"{counted(flow['gaps'], 'gap')} told, attachment lost {counted(answer['losses'], 'time')}"
    )
    sending = answer["sending"]
    if sending["sponsored"] or sending["waiting_bundles"] or sending["unsure_messages"]:
        waiting = counted(sending["waiting_bundles"], "bundle")
        yield (
            f"sending: {counted(sending['sponsored'], 'session')} through the attachment, {waiting} wait, "
            f"{counted(sending['unsure_messages'], 'message')} of unknown fate"
        )
    if answer["complaint"]:
        yield f"the attachment reports an error: {answer['complaint']}"


def _multicast(answer: dict[str, Any]) -> Iterator[str]:
    """What an edge hears of its attachment's multicasts, and what it multicasts itself."""
    told = answer.get("multicast")
    if told is None:
        return
    heard, own = told["heard"], told["own"]
    if heard["place"]:
        road = "fed by multicast" if heard["feeds"] else "fed over the connection"
        yield (
            f"{road}: {counted(heard.get('pieces', 0), 'piece')} heard, {heard.get('missed', 0):,} missed; "
            f"{counted(heard.get('requests', 0), 'request')} and {counted(heard['repairs'], 'repair')} "
            f"multicast, {counted(heard.get('escalated', 0), 'piece')} asked for over the connection"
        )
    if own["pieces"]:
        yield (
            f"multicasts to {counted(own['edges'], 'edge')}: {counted(own['pieces'], 'piece')}, "
            f"{counted(own['repairs'], 'repair')}, {counted(own['requests_heard'], 'request')} heard"
        )
    for place, reason in told.get("reasons", {}).items():
        yield f"no multicast at {place}: {reason}"


def _role(hierarchy: dict[str, Any]) -> str:
    """What an edge is among the others."""
    role = hierarchy["role"] if hierarchy["coordinator"] is None else f"child of {hierarchy['coordinator']}"
    behind = f"; {counted(hierarchy['behind'], 'edge')} behind it" if hierarchy["behind"] else ""
    ago = duration(hierarchy["since_us_ago"])
    return f"among the edges: {role} for {ago}, because {hierarchy['reason']}{behind}"


def _connection(answer: dict[str, Any], connection: dict[str, Any]) -> str:
    """One of an edge's two connections."""
    address = answer["attachments"][connection["place"]]["address"]
    way = [*connection["path"], connection["daemon"]]
    through = [name for name in way if name != connection["name"]]
    by = f", by way of {', '.join(through)}" if through else ""
    waits = f", {size(connection['waiting_bytes'])} wait for it" if connection["waiting_bytes"] else ""
    return f"{connection['name']} ({address}{by}) for {duration(connection['since_us_ago'])}{waits}"


def edge_rows(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The edges at a daemon, or at an edge; daemons of an earlier version do not tell."""
    return [
        {**edge, "state": STATES.get(edge["state"], edge["state"])} | _behind(edge)
        for edge in answer.get("edges", ())
    ]


def _behind(edge: dict[str, Any]) -> dict[str, Any]:
    told = {"behind_items": counted(edge["behind_items"], "item") if edge["behind_items"] else "-"}
    return {**told, "state": "fed by multicast"} if edge.get("by_multicast") else told


def edge_told(answer: dict[str, Any]) -> Iterator[str]:
    """Why an edge has the attachment that it has, what it has lost before, and what is missing."""
    if answer.get("hierarchy") is not None:
        yield _role(answer["hierarchy"]).capitalize() + "."
    for record in answer["history"]:
        ago = f"{duration(record['ago_us'])} ago"
        match record["event"]:
            case "attached":
                yield f"{ago}: attached to {record['name']}, {record['detail']}."
            case "lost":
                yield f"{ago}: lost {record['name']}: {record['detail']}."
            case "gap":
                yield f"{ago}: something of {record['name']} may be missing: {record['detail']}."
    if not answer["history"]:
        yield "nothing has happened yet"
    attachment = answer["attachment"]
    preferred = answer["attachments"] if attachment is None else answer["attachments"][: attachment["place"]]
    for place in preferred:
        if place["reason"]:
            again = f"; tried again in {duration(place['again_us'])}" if place["again_us"] else ""
            yield f"Not {place['address']} now: {place['reason']}{again}."
