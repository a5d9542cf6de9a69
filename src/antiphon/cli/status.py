"""The verb `status`: ask a daemon about itself."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from antiphon.cli.discovered import discovered_words
from antiphon.cli.edge_status import EDGE_COLUMNS, edge_faults, edge_rows, edge_words, is_edge
from antiphon.cli.explain import because, changes, roles_told
from antiphon.cli.options import Address, Cluster, Json, address_of
from antiphon.cli.screen import console, show_json
from antiphon.client import ask_status
from antiphon.short_views import short_view
from antiphon.words import counted, duration, listed, printable, printable_parts, size, span

SILENCE_MAX_US = 5_000_000
"""An open link receives a hello far more often than that, even when it is idle."""
MEMBERS_SHOWN = 8
SHOWN = 50
"""Groups and sessions that a person can take in; `--most` shows more."""
OTHER_CONFIGURATION = "packet: other configuration"
STATES = {
    "op": "messages flow",
    "seg": "looking for the daemons of this site",
    "rep": "another daemon of this site looks for the other sites",
    "gather": "looking for the other sites",
    "statetrans": "comparing which messages each daemon has",
    "evs": "recovering messages that some daemons lack",
}
"""What the daemons do in each state of their membership (thesis 6.1)."""

LINK_COLUMNS = {
    "to": "link to",
    "protocol": "over",
    "state": "state",
    "round_trip": "round trip",
    "packet_bytes": "packet size",
    "in_flight_packets": "in flight",
    "packets_sent": "sent",
    "packets_received": "received",
    "retransmitted": "resent",
}
MEMORY = ("input", "output", "answers")
SOCKET_WORDS = {"trains_sent": "batches sent", "trains_received": "batches received"}
LOCK_COLUMNS = {"group": "group", "lock": "lock", "holder": "held by", "fence": "grant", "waiting": "waiting"}
GROUP_COLUMNS = {"group": "group", "count": "members", "names": "names, in the order of joining"}
SESSION_COLUMNS = {
    "name": "session",
    "groups": "groups",
    "sent_messages": "sent",
    "input_bytes": "input queue",
    "output_bytes": "output queue",
    "warned": "warned",
    "dropped_messages": "dropped",
    "slow": "",
}


def status(
    address: Address = None,
    cluster: Cluster = None,
    json: Json = False,
    most: Annotated[
        int | None,
        typer.Option(
            "--most", metavar="N", min=0, help="Show this many groups and sessions; 50, or all with --json."
        ),
    ] = None,
) -> None:
    """Show whether the cluster is whole and messages flow, why its view last changed, what ordering waits for
    and which sessions are slow.

    Exits 0 if every daemon of the cluster is in the view of the daemon at ADDRESS and messages flow, 1 if not
    or if no daemon answers. For an edge: 0 if it is attached and all of its groups flow.

    \b
    Example:
      antiphon status --address unix:/tmp/antiphon.sock --json
    """
    shown = SHOWN if most is None else most
    address = address_of(address, cluster)
    if json:
        answer = ask_status(address, groups=most, sessions=most)
    else:
        answer = ask_status(address, groups=shown, members=MEMBERS_SHOWN, sessions=shown)
    faults = list(edge_faults(answer) if is_edge(answer) else faults_of(answer))
    if json:
        show_json(answer)
    else:
        out = console()
        parts = _edge_parts if is_edge(answer) else _parts
        for part in parts(printable_parts(answer), list(map(printable, faults))):
            out.print(part, soft_wrap=isinstance(part, str))
    if faults:
        raise typer.Exit(1)


def faults_of(answer: dict[str, Any]) -> Iterator[str]:
    """Each thing that keeps the cluster from being whole, as this daemon sees it."""
    members = answer["view"]["members"]
    peers = {peer["name"]: peer for peer in answer.get("peers", ())}
    for name in answer.get("daemons", ()):
        if name not in members:
            line = answer.get("runtime", {}).get("streams", {}).get(name, {})
            unconnected = f"; no connection: {line['reason']}" if line.get("reason") else ""
            strange = ((answer.get("security") or {}).get("strange") or {}).get(name, "")
            strange = f"; packets that claim to be from it are refused: {strange}" if strange else ""
            left_out = "".join(_exclusion(one) for one in answer.get("left_out", ()) if one["daemon"] == name)
            version = "".join(
                _version(one) for one in answer.get("other_versions", ()) if one["daemon"] == name
            )
            absence = _absence(peers.get(name))
            yield f"{name} is not in the view: {absence}{version}{strange}{unconnected}{left_out}"
    flow = answer.get("flow", {})
    if not flow.get("is_flowing", True):
        yield f"messages do not flow, for {duration(flow['stopped_us_ago'])}: {flow['detail']}"
    state, group_state = answer["state"], answer["group_state"]
    if state != "op":
        yield f"the view is about to change: {STATES.get(state, state)} ({state})"
    elif group_state in ("gtrans", "ggt"):
        yield f"clients are being told about the end of a view ({group_state})"
    elif group_state != "gop":
        waits = listed(answer["view"].get("groups_wait_for", ()), "the others")
        yield f"groups are being merged ({group_state}): waiting for {waits}"
    for link in answer["links"]:
        if link["state"] != "open":
            yield f"link to {link['to']} is {link['state']}: {link['reason']}"
        elif link["silent_us"] > SILENCE_MAX_US:
            yield f"link to {link['to']} has been silent for {duration(link['silent_us'])}"
    for mate in (answer.get("ring") or {}).get("mates", ()):
        if mate["state"] != "open":
            yield f"the {_kind_of(answer['ring'])} with {mate['name']} is {mate['state']}: {mate['reason']}"


def _version(other: dict[str, Any]) -> str:
    """Why nothing that a daemon sends is understood."""
    of = "" if other["of"] == "packet" else f" of {other['of']}s"
    return f"; it speaks version {other['version']}{of}, this daemon {other['ours']}"


def _exclusion(left_out: dict[str, Any]) -> str:
    """Why a daemon is kept out of the view."""
    return f"; left out for another {duration(left_out['remaining_us'])}: {left_out['reason']}"


def _absence(peer: dict[str, Any] | None) -> str:
    """What is known of a daemon that is not in the view."""
    if peer is None:
        return "this daemon has no direct path to it"
    if peer["heard_us_ago"] is None:
        return "never heard"
    heard = f"heard {duration(peer['heard_us_ago'])} ago"
    if peer.get("has_left"):
        return f"it announced its stop, {heard}"
    if peer["damped_us"]:
        times = counted(peer["losses"], "time")
        return f"{heard}, but lost {times}: not trusted for another {duration(peer['damped_us'])}"
    if peer["hears_us_us_ago"] is None:
        return f"{heard}, but it does not hear this daemon"
    return heard


def _parts(answer: dict[str, Any], faults: list[str]) -> Iterator[RenderableType]:
    """What a person wants to know, the most important first; `--json` has the rest."""
    runtime = answer["runtime"]
    where = f"at site {answer['site']} of cluster {answer['cluster']}"
    yield f"daemon {answer['daemon']} {where}, process {runtime['pid']}"
    yield f"clients connect to: {', '.join(runtime['places']) or 'none configured'}"
    if runtime["spread_places"]:
        yield f"Spread's clients connect to: {', '.join(runtime['spread_places'])}"
    yield from _exposed(runtime)
    yield from _verdict(answer, faults)
    yield from _security(answer)
    yield from discovered_words(runtime.get("discovery"))
    yield from _view(answer)
    yield _ordering(answer["ordering"], answer["daemon"])
    yield from _causal(answer.get("causal"))
    yield from roles_told(answer["ordering"])
    yield from _time(answer.get("time"))
    yield from _delays(answer)
    yield from _ring(answer)
    if answer["links"]:
        yield _table([link | _measured(link) for link in answer["links"]], LINK_COLUMNS)
    yield from _edges(answer)
    yield from _groups(answer)
    yield from _quorums(answer.get("quorums", {}))
    yield from _locks(answer.get("locks", {}))
    yield from _clients(answer)


def _security(answer: dict[str, Any]) -> Iterator[str]:
    """Whether packets between daemons are sealed, and how far a change of keys has come."""
    exposed, security = answer["runtime"].get("exposed"), answer.get("security")
    if exposed:
        yield f"INSECURE: {exposed}"
    if security is None:
        return
    yield f"packets between daemons are sealed with key {security['key']} ({security['suite']})"
    for one in answer.get("nonsense", ()):
        count = counted(one["packets"], "packet")
        yield (
            f"under the seal of {one['daemon']} came {count} such as no daemon sends, "
            f"the last one {duration(one['ago_us'])} ago: {one['reason']}"
        )
    following = security["next_key"]
    if following is not None and security["next_key_lacks"]:
        yield f"next key {following}: not known to be at {listed(security['next_key_lacks'], '')}"
    elif following is not None:
        yield f"next key {following}: all daemons have it, so it can replace the current key"


def _exposed(runtime: dict[str, Any]) -> Iterator[RenderableType]:
    """What is open to other machines without protection, and who takes how much where there is a list."""
    if runtime.get("insecure_places"):
        places = ", ".join(runtime["insecure_places"])
        yield Text(f"INSECURE: plain TCP that other machines may reach: {places}", style="bold red")
    access = runtime.get("access")
    if access is not None:
        users = (
            f"{name} {counted(taken['sessions'], 'session')}, {counted(taken['groups'], 'membership')}"
            for name, taken in sorted(access["users"].items())
        )
        yield f"access list: {access['list']}; connected: {'; '.join(users) or 'none'}"


def _edge_parts(answer: dict[str, Any], faults: list[str]) -> Iterator[RenderableType]:
    """The same of an edge."""
    yield from edge_words(answer, faults)
    yield from _exposed(answer["runtime"])
    yield from _edges(answer)
    yield from _groups(answer)
    yield from _clients(answer)


def _edges(answer: dict[str, Any]) -> Iterator[RenderableType]:
    """Who is fed from here."""
    rows = edge_rows(answer)
    if rows:
        yield _table(rows, EDGE_COLUMNS)


def _groups(answer: dict[str, Any]) -> Iterator[RenderableType]:
    sizes = answer.get("group_sizes", {})
    rows = [
        _group(name, members, sizes.get(name, len(members))) for name, members in answer["groups"].items()
    ]
    yield from _listing(rows, GROUP_COLUMNS, answer.get("not_shown", {}).get("groups", 0))


def _clients(answer: dict[str, Any]) -> Iterator[RenderableType]:
    """Sessions, what they take, and what was refused."""
    runtime = answer["runtime"]
    not_shown = answer.get("not_shown", {}).get("sessions", 0)
    yield from _listing(list(_sessions(answer)), SESSION_COLUMNS, not_shown)
    yield from _memory(runtime.get("memory"))
    for title, counters in (
        ("slow receivers", answer.get("slow_receivers", {})),
        ("dropped input", answer["counters"]),
        ("sockets", runtime.get("udp", {}) | runtime["clients"]),
    ):
        counted_ones = {
            SOCKET_WORDS.get(name, name.replace("_", " ")): count for name, count in counters.items() if count
        }
        yield f"{title}: {_cell(counted_ones) or 'none'}"


def _quorums(quorums: dict[str, str]) -> Iterator[RenderableType]:
    """Groups of which a member wishes a quorum."""
    words = {"yes": "have it", "deciding": "are deciding", "no": "have none: sends are refused"}
    for word, meaning in words.items():
        names = [name for name, has in quorums.items() if has == word]
        if names:
            style = "bold red" if word == "no" else ""
            yield Text(f"groups with a quorum that {meaning}: {listed(names)}", style=style)


def _locks(locks: dict[str, list[dict[str, Any]]]) -> Iterator[RenderableType]:
    """The locks of groups."""
    rows = [
        {"group": group, **lock, "holder": lock["holder"] or "-"} for group in locks for lock in locks[group]
    ]
    if rows:
        yield _table(rows, LOCK_COLUMNS)


def _verdict(answer: dict[str, Any], faults: list[str]) -> Iterator[RenderableType]:
    members = answer["view"]["members"]
    every = counted(len(answer.get("daemons", members)), "daemon")
    if not faults:
        yield Text(f"whole: {len(members)} of {every} in the view, messages flow", style="bold green")
        return
    verdict = "WHOLE, BUT MESSAGES DO NOT FLOW" if _is_only_stuck(answer) else "NOT WHOLE"
    yield Text(f"{verdict}: {len(members)} of {every} in the view", style="bold red")
    for words in faults:
        yield f"  {words}"
    if answer["counters"].get(OTHER_CONFIGURATION):
        yield "  packets with another configuration arrive: do all daemons have the same file?"


def _is_only_stuck(answer: dict[str, Any]) -> bool:
    """Whether all daemons are in one view that works, and still no message comes through."""
    is_whole = set(answer.get("daemons", ())) <= set(answer["view"]["members"])
    is_flowing = answer.get("flow", {}).get("is_flowing", True)
    return is_whole and answer["state"] == "op" and not is_flowing


def _view(answer: dict[str, Any]) -> Iterator[str]:
    """The daemons that work together, how they are joined, and why they are these."""
    view = answer["view"]
    joined = listed((f"{one}-{other}" for one, other in view.get("links", ())), "none needed")
    since = f", for {duration(view['since_us_ago'])}" if "since_us_ago" in view else ""
    yield f"view {short_view(view['id'])}{since}: {listed(view['members'])}; links {joined}"
    changed = [record for record in answer.get("rounds", ()) if record.get("view") is not None]
    if changed:
        last = changed[-1]
        yield " ".join((f"because: {because(last)}.", *changes(last), "`antiphon explain` tells more."))


def _ordering(ordering: dict[str, Any], daemon: str) -> str:
    """What delivery waits for. Bundles are stored until every daemon is known to have them."""
    if not ordering["bundles_held"]:
        return "ordering: nothing waits"
    held = f"{counted(ordering['bundles_held'], 'bundle')} ({ordering['bytes_held']:,} bytes)"
    lines = (
        ("agreed", ordering["agreed_line"], ordering["waits_for"]),
        ("safe", ordering["stable_line"], ordering["stability_waits_for"]),
    )
    waits = [
        f"{service} messages wait for {slowest}"
        for service, line, slowest in lines
        if line < ordering["clock"] and slowest != daemon
    ]
    allowed = ordering.get("allowed_bytes")  # daemons of an earlier version do not tell
    allows = () if allowed is None else (f"{allowed:,} bytes of its own may be in flight",)
    return "; ".join([f"ordering: {held} not yet known to be at every daemon", *allows, *waits])


def _causal(causal: dict[str, Any] | None) -> Iterator[str]:
    """What causal histories cost; nothing, while no session of the view sends causal messages."""
    if causal is None or not causal["histories_told"]:
        return
    mean = causal["causes_told"] / causal["histories_told"]
    cut = f", {causal['cut_short']:,} of them cut short" if causal["cut_short"] else ""
    told = f"histories of {counted(causal['histories_told'], 'bundle')} told{cut}"
    kept = f"{counted(causal['causes_kept'], 'cause')} kept"
    size = f"{mean:.1f} causes each and {causal['largest_bytes']:,} bytes at most"
    yield f"causal: {told}, {size}; {kept}, {counted(causal['waiting'], 'bundle')} wait for their causes"


def _time(time: dict[str, Any] | None) -> Iterator[str]:
    """What the daemon knows of the time; daemons of an earlier version do not tell."""
    if time is None or (time["basis"] == "unknown" and not time["references"]):
        return  # nobody has asked
    is_set = time["is_trusted"] is False
    distrust = "; the clock of this reference was set, and is not trusted" if is_set else ""
    if time["basis"] == "unknown":
        yield f"time: not known yet{distrust}"
        return
    by = (
        f"by reference {time['source']}" if time["basis"] == "reference" else f"internal, by {time['source']}"
    )
    offset_us = time.get("offset_us") or 0
    side = "ahead of" if offset_us >= 0 else "behind"
    yield (
        f"time: {by}, within {_small(time['error_us'])}, read {duration(time['read_us_ago'])} ago, "
        f"{_small(abs(offset_us))} {side} the system clock{distrust}"
    )


def _small(us: int) -> str:
    """A span of which microseconds matter."""
    return f"{us / 1_000:.3f} ms" if us < 10_000 else duration(us)


def _delays(answer: dict[str, Any]) -> Iterator[str]:
    """Why senders must wait, if they must."""
    if answer["slow_sessions"]:
        yield f"slow receivers here, for which their senders wait: {_cell(answer['slow_sessions'])}"
    if answer["holding"]:
        yield f"slow receivers elsewhere: {_cell(answer['holding'])}"
    if answer.get("held_sessions"):
        yield f"sessions here that wait for slow receivers: {_cell(answer['held_sessions'])}"
    if not answer["accepting"]:
        yield "senders here wait until the other daemons have caught up, or the view has changed"


def _kind_of(ring: dict[str, Any]) -> str:
    """What joins the daemons of a site; daemons of an earlier version do not tell."""
    return str(ring.get("protocol", "ring")).replace("-", " ")


def _window_of(ring: dict[str, Any]) -> str:
    """How a token site keeps its members from sending too much; a ring has no window."""
    if "window_packets" not in ring:
        return ""
    return f", window of {counted(ring['window_packets'], 'packet')}"


def _ring(answer: dict[str, Any]) -> Iterator[str]:
    """The daemons of this site that share a token, and how they send to one another."""
    ring = answer.get("ring")
    if ring is None:
        return
    multicast = answer["runtime"].get("multicast") or {}
    way = f"by multicast to {multicast.get('address')}"
    if not multicast.get("works"):
        unheard = ", ".join(multicast.get("unheard_by", ()))
        way = f"a copy to each ({multicast.get('reason') or f'multicast does not reach {unheard}'})"
    yield (
        f"{_kind_of(ring)} of {listed(ring['members'])}, representative {ring['representative']}: {way}; "
        f"a round takes {span(ring['round_us'])}, {ring['packets_sent']:,} packets sent, "
        f"{ring['packets_received']:,} received, {ring['retransmitted']:,} retransmitted{_window_of(ring)}"
    )


def _measured(link: dict[str, Any]) -> dict[str, str]:
    """What is measured of a link, with units."""
    return {
        "round_trip": span(link["rtt_us"]) if link["state"] == "open" else "-",
        "packet_bytes": f"{link['packet_bytes']:,} bytes",
    }


def _group(name: str, members: list[str], count: int) -> dict[str, Any]:
    return {"group": name, "count": count, "names": _first(members, count)}


def _first(names: list[str], count: int) -> str:
    """The first of so many names."""
    more = count - MEMBERS_SHOWN
    return ", ".join(names[:MEMBERS_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _listing(rows: list[dict[str, Any]], columns: dict[str, str], not_shown: int) -> Iterator[RenderableType]:
    """A table, and how many more rows there are."""
    if rows or not not_shown:
        yield _table(rows, columns)
    if not_shown:
        noun = next(iter(columns.values()))
        yield f"{counted(not_shown, f'more {noun}')}; `--most N` shows more, `--json` all"


def _memory(memory: dict[str, Any] | None) -> Iterator[str]:
    """What clients take of the memory that they share."""
    if memory is None:  # a daemon of an earlier version
        return
    used = [f"{name} {size(memory[name]['bytes'])} of {size(memory[name]['limit'])}" for name in MEMORY]
    waiting = [
        f"{count:,} {what.replace('_', ' ')} wait" for what, count in memory["waiting"].items() if count
    ]
    yield f"memory for clients: {', '.join((*used, *waiting))}"


def _sessions(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    output_bytes = answer["runtime"]["output_bytes"]
    for session in answer["sessions"]:
        yield session | {
            "groups": _first(session["groups"], len(session["groups"])),
            "input_bytes": size(session["input_bytes"]),
            "output_bytes": size(output_bytes.get(str(session["number"]), 0)),
            "warned": session.get("warned", 0),
            "dropped_messages": session.get("dropped_messages", 0),
            "slow": _lag(session, answer.get("slow_sessions", ())),
        }


def _lag(session: dict[str, Any], waited_for: Sequence[str]) -> str:
    """Whether a session does not keep up, and what is done about it."""
    if session["name"] in waited_for:
        return "slow: senders wait"
    if not session.get("is_slow"):
        return ""
    return "slow: no unreliable messages" if session["slow_policy"] == "drop-unreliable" else "slow"


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
