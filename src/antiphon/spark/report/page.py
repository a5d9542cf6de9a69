"""The report as a page: words, plots and tables for each question."""

from collections.abc import Iterable, Mapping, Sequence

from antiphon.plots import charts, elements
from antiphon.plots.words import count, duration, share
from antiphon.spark.report.figures import MARKS, STAGES, Link, Pair, Report, Run, Spread, Story, Talker, Way
from antiphon.spark.report.views import DOWN

_PLACES_MAX = 30
"""Rows and columns of a map of pairs."""
_DAEMONS_MAX = 40
"""Rows of a timeline."""
_MOMENTS_MAX = 60
_RUNS_MAX = 30
_NAMES_MAX = 8
_MARK_LEGEND = tuple((f"mark{number}", name) for number, name in enumerate(MARKS))
_WAY_NAMES = (
    "waiting for a place in the order",
    "transport to the other daemon",
    "ordering and stability",
    "daemon to application",
)
_KINDS = {DOWN: "down", "statetrans": "forms", "evs": "forms", "ggather": "forms"}
_KIND_LEGEND = (
    ("works", "in a view that works"),
    ("searches", "looking for others (seg, rep, gather)"),
    ("forms", "forming a view (statetrans, evs, ggather)"),
    ("down", "down"),
)


def page_of(report: Report, title: str = "") -> str:
    """The whole page."""
    sections = [
        elements.Section("latency", "Latency", _latency(report)),
        elements.Section("places", f"Latency between {report.pairs_of}", _pairs(report)),
        elements.Section("way", "What ordering and stability add", _ways(report.ways)),
        elements.Section("time", "Over time", _stories(report)),
        elements.Section("views", "Views and pauses", _views(report)),
        elements.Section("links", "Links: loss and retransmission", _links(report)),
        elements.Section("talkers", "Who talks most", _talkers(report)),
        elements.Section("runs", "Runs and events", _runs(report)),
    ]
    made_by = "Made by antiphon report. Percentiles are exact to one part in ten thousand."
    return elements.page(title or f"Report on {report.folder}", _intro(report), sections, made_by)


# The beginning --------------------------------------------------------------------------------------------


def _intro(report: Report) -> str:
    runs = report.runs
    live = sum(run.live for run in runs)
    kinds = " and ".join(
        part for part in (_of(live, "live run"), _of(len(runs) - live, "simulated run")) if part
    )
    words = elements.paragraph(f"What the traces of {kinds} tell.", "soft")
    numbers = elements.facts(
        (
            ("messages sent", count(sum(run.sent for run in runs))),
            ("deliveries", count(sum(run.delivered for run in runs))),
            ("daemons", count(max(run.daemons for run in runs))),
            ("processes", count(sum(run.processes for run in runs))),
            ("groups", count(report.groups_count)),
            ("daemon views", count(report.installations_count)),
            ("pauses", count(report.pauses_count)),
            ("time", duration(sum(run.span_us for run in runs))),
        )
    )
    return words + numbers + (_clocks(runs) if live else "")


def _of(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}" if number else ""


def _clocks(runs: Iterable[Run]) -> str:
    early = sum(run.early for run in runs)
    text = (
        "Times of live runs are those of each machine's own clock. What begins on one machine and ends on "
        "another (latency, transport, the order of events of different daemons) is only as exact as those "
        "clocks agree; what begins and ends at one daemon (ordering, pauses) does not depend on them."
    )
    if early:
        most_us = max(run.earliest_us for run in runs)
        text += (
            f" Here {count(early)} deliveries came before their message was sent, by up to "
            f"{duration(most_us)}: the clocks differ by at least that."
        )
    return elements.paragraph(text, "note")


# Latency --------------------------------------------------------------------------------------------------


def _latency(report: Report) -> str:
    if not report.services:
        return elements.paragraph("No message was both sent and delivered in these traces.")
    return (
        elements.paragraph(
            "From the send to each delivery. Half of the deliveries took at most p50, all but one in a "
            "hundred at most p99. The scale is one of factors: each step is several times longer."
        )
        + _spreads("By service", "service", report.services)
        + _spreads("By group, those with most deliveries", "group", report.groups)
    )


def _spreads(caption: str, noun: str, rows: Sequence[Spread], counted: str = "deliveries") -> str:
    drawn = [charts.Range(row.name, row.marks) for row in rows]

    def draw(width: int) -> str:
        return charts.ranges(caption, MARKS, drawn, "time, by factors", duration, width)

    return elements.figure(caption, draw, _MARK_LEGEND) + elements.table(
        f"{caption}, in numbers",
        (noun, counted, *MARKS),
        ((row.name, f"{row.deliveries:,}", *map(duration, row.marks)) for row in rows),
    )


def _pairs(report: Report) -> str:
    pairs = report.pairs
    if not pairs:
        return elements.paragraph("No message was both sent and delivered in these traces.")
    places = sorted({pair.origin for pair in pairs} | {pair.target for pair in pairs}, key=_natural)
    shown = places[:_PLACES_MAX]
    values = {(pair.origin, pair.target): pair.p50_us for pair in pairs}
    text = f"From the row's place to the column's: p50 of all services together. {_cut(places, shown)}"

    def draw(width: int) -> str:
        drawn = {pair: value for pair, value in values.items() if set(pair) <= set(shown)}
        return charts.heat(f"p50 between {report.pairs_of}", shown, shown, drawn, _short, width, square=True)

    slowest = sorted(pairs, key=lambda pair: -pair.p50_us)[:20]
    return elements.figure(text, draw) + elements.table(
        "Pairs with the longest p50",
        ("from", "to", "deliveries", *MARKS),
        (_pair_row(pair) for pair in slowest),
        numbers_from=2,
    )


def _pair_row(pair: Pair) -> Sequence[str]:
    times = (pair.p50_us, pair.p90_us, pair.p99_us, pair.max_us)
    return (pair.origin, pair.target, f"{pair.deliveries:,}", *map(duration, times))


def _short(us: float) -> str:
    """A time for a small cell: `12ms`."""
    return duration(us).replace(" ", "")


def _natural(name: str) -> tuple[object, ...]:
    """Sorts d2 before d10."""
    digits = name.lstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.")
    return (name[: len(name) - len(digits)], int(digits)) if digits.isdecimal() else (name, 0)


def _cut(rows: Sequence[object], shown: Sequence[object]) -> str:
    return f"{len(shown)} of {len(rows)} are shown." if len(shown) < len(rows) else ""


# The way --------------------------------------------------------------------------------------------------


def _ways(ways: Sequence[Way]) -> str:
    if not ways:
        return elements.paragraph("These traces do not have the events of daemons that this needs.")
    rows = [charts.Stack(way.service, tuple(max(0.0, stage.mean_us) for stage in way.stages)) for way in ways]

    def draw(width: int) -> str:
        return charts.stacks("Parts of the way", _WAY_NAMES, rows, "mean time", duration, width)

    legend = tuple((f"part{number}", name) for number, name in enumerate(_WAY_NAMES))
    numbers = elements.table(
        "Parts of the way, mean / p50 / p99",
        ("service", "deliveries", *STAGES),
        (
            (
                way.service,
                f"{way.deliveries:,}",
                *(
                    " / ".join(map(duration, (stage.mean_us, stage.p50_us, stage.p99_us)))
                    for stage in way.stages
                ),
            )
            for way in ways
        ),
    )
    text = (
        "A message waits until its daemon gives it a place in the order (longer if a view is being formed, "
        "or under back-pressure), travels to the receiver's daemon, waits there for its turn (agreed: until "
        "nothing earlier can come; safe: until all are known to have it), and is read by the application."
    )
    return (
        elements.paragraph(text)
        + elements.figure("Mean time of each part, by service", draw, legend)
        + numbers
    )


# Time -----------------------------------------------------------------------------------------------------


def _stories(report: Report) -> str:
    if not report.stories:
        return elements.paragraph("There is no run to be drawn.")
    some = len(report.stories) < len(report.runs)
    intro = f"The {len(report.stories)} runs with most deliveries, of {len(report.runs)}. " if some else ""
    return elements.paragraph(f"{intro}Time counts from the first event of a run.") + "".join(
        _story(story, next(run for run in report.runs if run.name == story.run)) for story in report.stories
    )


def _story(story: Story, run: Run) -> str:
    per_s = 1e6 / story.step_us
    lines = [
        charts.Line(
            "delivered", "two", tuple((rate.start_us, rate.delivered * per_s) for rate in story.rates)
        ),
        charts.Line("sent", "one", tuple((rate.start_us, rate.sent * per_s) for rate in story.rates)),
    ]
    moments = [(float(moment), f"view at {duration(moment)}") for moment in story.moments_us[:_MOMENTS_MAX]]

    def draw(width: int) -> str:
        axes = ("time since the run began", "messages per second")
        return charts.lines(
            f"Throughput of {story.run}", lines, moments, axes, (duration, charts.count_words), width
        )

    legend = (("line-one", "sent"), ("line-two", "delivered"), ("moments", "a daemon view was installed"))
    caption = f"Throughput in steps of {duration(story.step_us)}"
    return elements.heading(story.run) + elements.figure(caption, draw, legend) + _timeline(story, run)


def _timeline(story: Story, run: Run) -> str:
    names = sorted({span.daemon for span in story.spans}, key=_natural)
    if not names:
        return elements.paragraph("There are no events of daemons in this run.", "soft")
    shown = names[:_DAEMONS_MAX]
    rows: Mapping[str, list[charts.Span]] = {name: [] for name in shown}
    for span in story.spans:
        if span.daemon in rows:
            kind = "works" if span.is_working else _KINDS.get(span.state, "searches")
            when = f"at {duration(span.start_us)} for {duration(span.end_us - span.start_us)}"
            hint = f"{span.daemon}: {span.state} ({span.reason}) {when}"
            rows[span.daemon].append(charts.Span(span.start_us, span.end_us, kind, hint))

    def draw(width: int) -> str:
        axis = "time since the run began"
        return charts.timeline(
            f"Membership in {story.run}", rows, axis, duration, (0.0, float(run.span_us)), width
        )

    caption = f"What the membership of each daemon went through. {_cut(names, shown)}"
    return elements.figure(caption, draw, _KIND_LEGEND)


# Views ----------------------------------------------------------------------------------------------------


def _views(report: Report) -> str:
    if not report.installations_count:
        return elements.paragraph("There are no events of daemons in these traces.")
    words = elements.paragraph(
        "A pause is a time in which a daemon took no message of a client: from giving up its view, or "
        "taking a proposal, to the next view. The reason is why the daemon left its view; "
        "antiphon explain tells more of a cluster that runs."
    )
    pauses = _spreads("Pauses, by reason", "reason", report.pauses_by_reason, "pauses")
    some_runs = len(report.runs) > 1
    longest = elements.table(
        "The longest pauses",
        (*(("run",) if some_runs else ()), "daemon", "reason", "ended by", "began", "took"),
        (
            (
                *((one.run,) if some_runs else ()),
                one.daemon,
                one.reason,
                {"": "(end of trace)", "crash": "crash"}.get(one.ended, "new view"),
                duration(one.start_us),
                duration(one.took_us),
            )
            for one in report.pauses
        ),
        numbers_from=4 if some_runs else 3,
    )
    shown = report.installations
    of_all = f" ({len(shown)} of {report.installations_count:,}: those that took longest)"
    changes = elements.table(
        f"Daemon views{of_all if len(shown) < report.installations_count else ''}",
        ("run", "reasons", "members", "first installed", "last installed"),
        (
            (
                one.run,
                ", ".join(one.reasons),
                f"{len(one.members)}: {_names(one.members)}",
                duration(one.first_us),
                f"+ {duration(one.last_us - one.first_us)}",
            )
            for one in shown
        ),
        numbers_from=3,
    )
    return words + pauses + longest + changes


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return ", ".join(names[:_NAMES_MAX]) + more


# Links ----------------------------------------------------------------------------------------------------


def _links(report: Report) -> str:
    if not report.links:
        return elements.paragraph("There are no samples of links in these traces.")
    rows = [(f"{link.origin} → {link.target}", link.resent_share) for link in report.links]

    def draw(width: int) -> str:
        return charts.bars(
            "Packets sent again", rows, "part of the packets that was sent again", share, width
        )

    if any(part for _, part in rows):
        shown = f"{len(report.links)} of {report.links_count:,} links"
        drawn = elements.figure(f"What was sent again, of all that left; {shown}", draw)
    else:
        drawn = elements.paragraph("No link sent anything again.")
    return drawn + elements.table(
        "Links, in numbers",
        ("link", "run", "packets", "resent", "lost", "duplicates", "failures", "round trip"),
        (_link_row(link) for link in report.links),
        numbers_from=2,
    )


def _link_row(link: Link) -> Sequence[str]:
    numbers = (link.duplicates, link.failures)
    return (
        f"{link.origin} → {link.target}",
        link.run,
        f"{link.packets:,}",
        f"{link.resent:,} ({share(link.resent_share)})",
        "?" if link.lost is None else f"{link.lost:,} ({share(link.lost_share)})",
        *(f"{number:,}" for number in numbers),
        duration(link.round_trip_us) if link.round_trip_us else "?",
    )


# Talkers and runs -----------------------------------------------------------------------------------------


def _talkers(report: Report) -> str:
    if not report.talkers:
        return elements.paragraph("Nobody sent a message.")
    only = f"{report.runs[0].name} " if len(report.runs) == 1 else ""

    def draw(width: int) -> str:
        rows = [(one.name.removeprefix(only), float(one.sent)) for one in report.talkers]
        return charts.bars("Messages sent", rows, "messages sent", count, width)

    return (
        elements.figure("Processes that sent most", draw)
        + _talker_table("Processes", "process", report.talkers)
        + _talker_table("Groups", "group", report.busiest_groups)
    )


def _talker_table(caption: str, noun: str, rows: Sequence[Talker]) -> str:
    return elements.table(
        caption,
        (noun, "sent", "delivered", "deliveries a message"),
        (
            (
                one.name,
                f"{one.sent:,}",
                f"{one.delivered:,}",
                count(one.delivered / one.sent) if one.sent else "",
            )
            for one in rows
        ),
    )


def _runs(report: Report) -> str:
    shown = report.runs[:_RUNS_MAX]
    runs = elements.table(
        f"Runs. {_cut(report.runs, shown)}",
        ("run", "kind", "daemons", "events", "sent", "delivered", "views", "signals", "crashes", "time"),
        (
            (
                run.name,
                "live" if run.live else "simulated",
                *(
                    f"{number:,}"
                    for number in (
                        run.daemons, run.events, run.sent, run.delivered, run.views, run.signals, run.crashes
                    )
                ),
                duration(run.span_us),
            )
            for run in shown
        ),
        numbers_from=2,
    )  # fmt: skip
    events = elements.table(
        "Events", ("event", "times"), ((name, f"{n:,}") for name, n in report.events.items())
    )
    return runs + events
