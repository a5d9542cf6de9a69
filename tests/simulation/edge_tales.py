"""Traces of edges, made by hand: a core of two daemons in one view, and an edge beside it."""

from antiphon.simulator.oracle.edges import PROPERTIES
from antiphon.trace import Event, Identity, Record, Trace, ViewNumber

VIEW = 10
"""The daemon view of the core."""
LIFE = 7
EDGE = 0xFFFF


def number(lts: int, branch: int = 0, view: int = VIEW) -> ViewNumber:
    """The identifier of a view of a group."""
    return (view, branch, lts, 0)


class Tale:
    """What happens, in its order."""

    def __init__(self, *, is_told_of_views: bool = True) -> None:
        self.records: list[Record] = []
        self._sent: dict[int, Record] = {}
        self._handed = 0
        for daemon in ("d0", "d1"):
            self.add(Event.RECOVER, daemon, incarnation=LIFE)
            self._install(daemon, VIEW)
        self.add(Event.CONNECT, "d0", "#core#d0", incarnation=LIFE)
        self.view("#core#d0", number(1))
        self.add(Event.RECOVER, "e0", incarnation=LIFE)
        self.add(Event.ATTACH, "e0", peer="d0")
        self.add(Event.PART, "e0", daemon_view=VIEW)
        self.add(Event.CONNECT, "e0", "#x#e0", incarnation=LIFE, views_wanted=is_told_of_views)
        self.add(Event.JOIN, "e0", "#x#e0", ("g",), (None,))

    def add(
        self,
        event: Event,
        daemon: str,
        process: str = "",
        groups: tuple[str, ...] = (),
        views: tuple[ViewNumber | None, ...] = (),
        **fields: object,
    ) -> "Tale":
        place = len(self.records)
        self.records.append(Record(place, place, event, daemon, process, groups, views, **fields))  # type: ignore[arg-type]
        return self

    def _install(self, daemon: str, view: int, members: tuple[str, ...] = ("d0", "d1")) -> None:
        self.add(
            Event.SVIEW, daemon, members=members, daemon_view=view, incarnations=(LIFE,) * len(members),
            transitional=members,
        )  # fmt: skip

    def install(self, view: int, daemons: tuple[str, ...] = ("d0", "d1")) -> "Tale":
        """These daemons go on to another view."""
        for daemon in daemons:
            self._install(daemon, view, daemons)
        return self

    def base(self, place: int, view: int = VIEW, first: ViewNumber | None = None) -> "Tale":
        """The group flows at the edge from a place on, and the member there gets its first view."""
        self.add(Event.BASE, "e0", groups=("g",), views=(first or number(1),), daemon_view=view, place=place)
        return self.view("#x#e0", first or number(1))

    def view(
        self, process: str, view: ViewNumber, members: tuple[str, ...] = ("#core#d0",), cause: str = "join"
    ) -> "Tale":
        daemon = process.rpartition("#")[2]
        return self.add(Event.VIEW, daemon, process, ("g",), (view,), members=members, cause=cause)

    def signal(self, process: str, view: ViewNumber) -> "Tale":
        return self.add(Event.TRANSSIG, process.rpartition("#")[2], process, ("g",), (view,))

    def core(
        self, place: int, service: str = "agreed", view: int = VIEW, by: tuple[str, ...] = ("d0", "d1")
    ) -> "Tale":
        """The member of the core sends a message, which gets this place; these daemons deliver it."""
        message: Identity = (0, LIFE, 1, place)
        fields = {"service": service, "checksum": place}
        sent = self.add(
            Event.SEND, "d0", "#core#d0", ("g",), (number(1),), message=message, **fields
        ).records[-1]
        self._sent[place] = sent
        return self.carry(sent, place, view, by)

    def carry(self, sent: Record, place: int, view: int = VIEW, by: tuple[str, ...] = ("d0", "d1")) -> "Tale":
        """The core orders a message, and delivers it."""
        bundle = (view, 0, place)
        told = {"message": sent.message, "service": sent.service, "bundle": bundle, "lts": place}
        self.add(Event.SSEND, "d0", groups=("g",), destinations=("d0", "d1"), **told)
        for daemon in by:
            self.add(Event.SDELIVER, daemon, groups=("g",), destinations=("d0", "d1"), **told)
        return self

    def deliver(self, *places: int, process: str = "#x#e0") -> "Tale":
        """The member at the edge gets what has these places."""
        for place in places:
            sent = self._sent[place]
            self.add(
                Event.DELIVER, process.rpartition("#")[2], process, ("g",), (number(1),),
                message=sent.message, service=sent.service, checksum=sent.checksum, lts=place,
            )  # fmt: skip
        return self

    def gap(self, after: int, until: int, view: int = VIEW) -> "Tale":
        """The edge is told of a gap, and tells it."""
        told = {"lts": after, "place": until, "reason": "forgotten"}
        self.add(Event.GAP, "e0", groups=("g",), daemon_view=view, **told)
        return self.add(Event.GAP, "e0", "#x#e0", ("g",), (number(1),), **told)

    def hand(self, checksum: int) -> Record:
        """The member at the edge hands a message over."""
        self._handed += 1
        self.add(
            Event.HANDED, "e0", "#x#e0", ("g",), (number(1),), message=(EDGE, LIFE, 1, self._handed),
            service="agreed", checksum=checksum,
        )  # fmt: skip
        return self.records[-1]

    def send(self, handed: Record, sequence: int, place: int = 0) -> "Tale":
        """An attachment sends it; with a place, the core delivers it, and the edge, too."""
        message: Identity = (0, LIFE, 5, sequence)
        self.add(
            Event.SEND, "d0", "#x@e0#d0", ("g",), (None,), message=message, service=handed.service,
            checksum=handed.checksum, peer="#x#e0",
        )  # fmt: skip
        if place:
            self._sent[place] = self.records[-1]
            self.carry(self.records[-1], place)
            self.deliver(place)
        return self

    def restored(self) -> "Tale":
        """The faults are over."""
        return self.add(Event.RESTORED, "", parts=(("d0", "d1"),), members=("e0",))

    def wrong(self) -> list[str]:
        """What the oracle finds."""
        trace = Trace("tale", 0, ("d0", "d1"), self.records, edges=("e0",))
        return [violation.what for violation in PROPERTIES[0].check(trace)]
