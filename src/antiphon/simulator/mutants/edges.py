"""Feeds that go on at the wrong place, keep silent about it, or bring what they should not."""

from typing import Any

from antiphon.core.edge.feed import Feed
from antiphon.core.edge.members import EdgeGroup, Members
from antiphon.core.edge.sending import Sending
from antiphon.core.feeds.attachments import Attachments
from antiphon.core.feeds.log import FeedLog, Kind, Lost, Point
from antiphon.core.feeds.server import FeedServer
from antiphon.core.feeds.source import FeedSource
from antiphon.core.groups.group import Group
from antiphon.simulator.mutants.mutant import Mutant, Original

EDGES_ALONE = frozenset(("edges",))


def _nothing(original: Original) -> Original:
    return lambda *_, **__: None


def _one_too_late(original: Original) -> Original:
    def serial_after(log: FeedLog, point: Point) -> int:
        found: int = original(log, point)
        return min(log.end, found + 1)

    return serial_after


def _nothing_is_lost(original: Original) -> Original:
    def lost_since(log: FeedLog, group: str, point: Point) -> Lost | None:
        return None

    return lost_since


def _forgets_unsaid(original: Original) -> Original:
    def drop_old(log: FeedLog, now_us: int) -> None:
        dropped = {name: carried.dropped for name, carried in log.groups.items()}
        original(log, now_us)
        for name, carried in log.groups.items():
            carried.dropped = dropped.get(name)

    return drop_old


def _gap_kept_to_itself(original: Original) -> Original:
    def gap(members: Members, told: Any) -> None:
        group: EdgeGroup = members.groups[told.group]
        group.flows = False
        members._receivers.clear()

    return gap


def _views_late(original: Original) -> Original:
    def view(members: Members, new: Any) -> bool:
        held = members.__dict__.setdefault("held_views", [])
        held.append(new)
        return bool(len(held) < 2 or original(members, held.pop(0)))

    return view


def _ordered_late(original: Original) -> Original:
    def bundle(members: Members, header: Any, data: bytes, own: Any) -> None:
        held = members.__dict__.setdefault("held_bundles", [])
        held.append((header, data, own))
        if len(held) == 3:
            held.reverse()
            for one in held:
                original(members, *one)
            held.clear()

    return bundle


def _not_listened(original: Original) -> Original:
    def listen(group: Group, daemon: int, site: int, receivers: int) -> None:
        group.listeners[daemon] = receivers

    return listen


def _everything_twice(original: Original) -> Original:
    def submit(attachments: Attachments, number: int, bundles: Any, now_us: int) -> None:
        original(attachments, number, [copy for one in bundles for copy in (one, bytearray(one))], now_us)

    return submit


def _own_unknown(original: Original) -> Original:
    def saw(sending: Sending, header: Any) -> None:
        original(sending, header)

    return saw


def _skips_one_view(original: Original) -> Original:
    def view(source: FeedSource, change: Any) -> None:
        if change.cause.value != "leave":
            original(source, change)

    return view


def _any_branch(original: Original) -> Original:
    def find(log: FeedLog, position: Any) -> Point | Lost | None:
        part = log._parts.get(position.view)
        found: Point | Lost | None = original(log, position)
        return found if part is None else (part.number, position.key)

    return find


def _torn_ones_too(original: Original) -> Original:
    def find(members: Members, names: tuple[str, ...]) -> tuple[int, ...]:
        found = dict.fromkeys(original(members, names))
        for name in names:
            group = members.groups.get(name)
            if group is not None and not group.flows:
                found.update(dict.fromkeys(group.members))
        return tuple(found)

    return find


def _always_first(original: Original) -> Original:
    def is_first(feed: Feed, header: Any) -> bool:
        return True

    return is_first


def _passes_signals_by(original: Original) -> Original:
    def go_on(server: FeedServer, edge: Any, now_us: int) -> None:
        log, skips, before = server.log, edge.skips, len(server._output)
        passed = {
            id(item.frame)
            for item in log.after(max(edge.cursor, log.first))
            if item.kind is Kind.SIGNAL and skips is not None and item.point <= skips
        }
        original(server, edge, now_us)
        server._output[before:] = [one for one in server._output[before:] if id(one[1]) not in passed]

    return go_on


EDGES: tuple[Mutant, ...] = (
    Mutant(
        "an item too late", "an edge that comes back misses the next item of the feed",
        EDGES_ALONE, FeedLog, "serial_after", _one_too_late, "edges",
    ),
    Mutant(
        "nothing is lost", "an attachment goes on with groups that it had not listened to, or has forgotten",
        EDGES_ALONE, FeedLog, "lost_since", _nothing_is_lost, "edges",
    ),
    Mutant(
        "forgotten and unsaid", "an attachment does not know that it has forgotten something",
        EDGES_ALONE, FeedLog, "drop_old", _forgets_unsaid, "edges",
    ),
    Mutant(
        "gaps kept", "an edge does not tell its members of a gap",
        EDGES_ALONE, Members, "gap", _gap_kept_to_itself, "edges",
    ),
    Mutant(
        "views late", "an edge tells of each view when the next one comes",
        EDGES_ALONE, Members, "view", _views_late, "edges",
    ),
    Mutant(
        "views left out", "views of those who leave are not fed",
        EDGES_ALONE, FeedSource, "view", _skips_one_view, "edges",
    ),
    Mutant(
        "another order", "an edge hands out bundles in another order than they come",
        EDGES_ALONE, Members, "bundle", _ordered_late, "edges",
    ),
    Mutant(
        "listeners not served", "what is sent to a group does not go where daemons only listen",
        EDGES_ALONE, Group, "listen", _not_listened, "edges", shown_by=3,
    ),
    Mutant(
        "sent twice", "an attachment sends everything twice",
        EDGES_ALONE, Attachments, "submit", _everything_twice, "edges",
    ),
    Mutant(
        "own ones unknown", "what a session at an edge did not want back comes back to it",
        EDGES_ALONE, Sending, "saw", _own_unknown, "edges",
    ),
    Mutant(
        "doubts kept", "an edge does not tell what it does not know the fate of",
        EDGES_ALONE, Sending, "_tell_unsure", _nothing, "edges",
    ),
    Mutant(
        "any branch will do", "an attachment goes on where the edge's last one went another way",
        EDGES_ALONE, FeedLog, "find", _any_branch, "edges", seeds=250, shown_by=201,
    ),
    Mutant(
        "signals missed", "an edge that is ahead of its next attachment is not told of the signal there",
        EDGES_ALONE, FeedServer, "_signal_missed", _nothing, "edges", seeds=250, shown_by=144,
    ),
    Mutant(
        "gaps on the way ignored", "a gap that stands in the feed is not told to who comes to it",
        EDGES_ALONE, FeedServer, "_pass_gap", _nothing, "edges", seeds=250, shown_by=28,
    ),
    Mutant(
        "torn groups go on", "members get what comes by another group while theirs has a gap",
        EDGES_ALONE, Members, "_find", _torn_ones_too, "edges", seeds=250, shown_by=151,
    ),
    Mutant(
        "unreliable ones again", "an edge hands out what its last attachment had brought already",
        EDGES_ALONE, Feed, "_is_first", _always_first, "edges", seeds=250, shown_by=105,
    ),
    Mutant(
        "signals passed by", "a signal that comes before the place of an edge that is ahead is not told",
        EDGES_ALONE, FeedServer, "_go_on", _passes_signals_by, "edges", seeds=250, shown_by=233,
    ),
)  # fmt: skip
