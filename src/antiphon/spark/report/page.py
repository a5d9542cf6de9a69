"""The report as a page: words, plots and tables for each question."""

from collections.abc import Iterable, Mapping, Sequence

from antiphon.plots.charts import (
    Bar,
    BarChart,
    HeatMap,
    Line,
    LineChart,
    Range,
    RangeChart,
    Span,
    Timeline,
    bar_chart,
)
from antiphon.plots.page import Block, Facts, Figure, Heading, Page, Paragraph, Section, Table, render
from antiphon.plots.words import count, duration, share, short_count
from antiphon.spark.report.figures import (
    MARKS,
    STAGES,
    Link,
    OneWay,
    OneWays,
    Pair,
    Report,
    Run,
    Spread,
    Story,
    Talker,
    Way,
)
from antiphon.spark.report.views import DOWN

_PLACES_MAX = 30
"""Rows and columns of a map of pairs."""
_DAEMONS_MAX = 40
"""Rows of a timeline."""
_PAIRS_SHOWN = 40
_MOMENTS_MAX = 60
_RUNS_MAX = 30
_NAMES_MAX = 8
_WAY_NAMES = (
    "waiting for a place in the order",
    "transport to the other daemon",
    "ordering and stability",
    "daemon to application",
)
_WORKS, _SEARCHES, _FORMS, _DOWN = "pale-green", "amber", "violet", "red"
_STATE_COLOURS = {DOWN: _DOWN, "statetrans": _FORMS, "evs": _FORMS, "ggather": _FORMS}
_STATE_LEGEND = (
    (_WORKS, "in a view that works"),
    (_SEARCHES, "looking for others (seg, rep, gather)"),
    (_FORMS, "forming a view (statetrans, evs, ggather)"),
    (_DOWN, "down"),
)


def page_of(report: Report, title: str = "") -> str:
    """The whole page."""
    sections = [
        Section("latency", "Latency", _latency(report)),
        Section("places", f"Latency between {report.pairs_of}", _pairs(report)),
        Section("one-way", f"One-way latency between {report.pairs_of}", _one_ways(report.one_ways)),
        Section("way", "What ordering and stability add", _ways(report.ways)),
        Section("time", "Over time", _stories(report)),
        Section("views", "Views and pauses", _views(report)),
        Section("links", "Links: loss and retransmission", _links(report)),
        Section("talkers", "Who talks most", _talkers(report)),
        Section("runs", "Runs and events", _runs(report)),
    ]
    made_by = "Made by antiphon report. Percentiles are exact to one part in ten thousand."
    return render(Page(title or f"Report on {report.folder}", _intro(report), sections, made_by))


# The beginning --------------------------------------------------------------------------------------------


def _intro(report: Report) -> list[Block]:
    runs = report.runs
    live = sum(run.live for run in runs)
    kinds = " and ".join(
        part for part in (_of(live, "live run"), _of(len(runs) - live, "simulated run")) if part
    )
    words = Paragraph(f"What the traces of {kinds} tell.", "soft")
    numbers = Facts(
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
    return [words, numbers, *([_clocks(runs)] if live else [])]


def _of(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}" if number else ""


def _clocks(runs: Iterable[Run]) -> Block:
    early = sum(run.early for run in runs)
    text = (
        "Times of live runs are those of each machine's own clock. What begins on one machine and ends on "
        "another (latency, transport, the order of events of different daemons) is only as exact as those "
        "clocks agree; what begins and ends at one daemon (ordering, pauses) does not depend on them. Only "
        "one-way latency is by the common time of the daemons, with a bound on its error."
    )
    if early:
        most_us = max(run.earliest_us for run in runs)
        text += (
            f" Here {count(early)} deliveries came before their message was sent, by up to "
            f"{duration(most_us)}: the clocks differ by at least that."
        )
    return Paragraph(text, "note")


# Latency --------------------------------------------------------------------------------------------------


def _latency(report: Report) -> list[Block]:
    if not report.services:
        return [Paragraph("No message was both sent and delivered in these traces.")]
    return [
        Paragraph(
            "From the send to each delivery. Half of the deliveries took at most p50, all but one in a "
            "hundred at most p99. The scale is logarithmic: each step to the right is several times longer."
        ),
        *_spreads("By service", "service", report.services),
        *_spreads("By group, those with most deliveries", "group", report.groups),
    ]


def _spreads(caption: str, noun: str, rows: Sequence[Spread], counted: str = "deliveries") -> list[Block]:
    drawn = [Range(row.name, row.marks) for row in rows]
    return [
        Figure(caption, RangeChart(caption, MARKS, drawn, "time, logarithmic", duration)),
        Table(
            f"{caption}, in numbers",
            (noun, counted, *MARKS),
            [(row.name, f"{row.deliveries:,}", *map(duration, row.marks)) for row in rows],
        ),
    ]


def _pairs(report: Report) -> list[Block]:
    pairs = report.pairs
    if not pairs:
        return [Paragraph("No message was both sent and delivered in these traces.")]
    places = sorted({pair.origin for pair in pairs} | {pair.target for pair in pairs}, key=_natural)
    shown = places[:_PLACES_MAX]
    values = {
        (pair.origin, pair.target): pair.p50_us for pair in pairs if {pair.origin, pair.target} <= set(shown)
    }
    text = f"From the row's place to the column's: p50 of all services together. {_cut(places, shown)}"
    chart = HeatMap(f"p50 between {report.pairs_of}", shown, shown, values, _short, is_square=True)
    slowest = sorted(pairs, key=lambda pair: -pair.p50_us)[:20]
    return [
        Figure(text, chart),
        Table(
            "Pairs with the longest p50",
            ("from", "to", "deliveries", *MARKS),
            [_pair_row(pair) for pair in slowest],
            numbers_from=2,
        ),
    ]


def _one_ways(found: OneWays) -> list[Block]:
    if not found.known:
        return [Paragraph(_no_common_time(found))]
    text = (
        "From the moment in which a daemon gives a bundle its place in the order until another one has all "
        "of it, by the time on which both agree. The true percentile is within the bound that follows it."
    )
    if found.unknown:
        text += (
            f" {count(found.unknown)} of {count(found.known + found.unknown)} arrivals are left out: no "
            "common time is known for them."
        )
    if found.impossible:
        text += (
            f" {_of(found.impossible, 'arrival')} came before being sent, by more than the bounds allow: "
            "a clock is not as good as the configuration says."
        )
    return [
        Paragraph(text),
        Table(
            "From one to the other, those with most bundles",
            ("from", "to", "time of", "bundles", "p50", "p99", "greatest error"),
            [_one_way_row(one) for one in found.pairs[:_PAIRS_SHOWN]],
            numbers_from=3,
        ),
    ]


def _no_common_time(found: OneWays) -> str:
    if not found.unknown:
        return "No daemon is known to have had a bundle of another one in these traces."
    return (
        f"No common time is known for any of {count(found.unknown)} arrivals, so how long bundles took from "
        "one daemon to another is not known."
    )


def _one_way_row(one: OneWay) -> Sequence[str]:
    p50, p99 = (
        f"{duration(took_us)} ± {duration(error_us)}"
        for took_us, error_us in ((one.p50_us, one.p50_error_us), (one.p99_us, one.p99_error_us))
    )
    bases = ", ".join(one.bases)
    return (one.origin, one.target, bases, f"{one.bundles:,}", p50, p99, duration(one.error_max_us))


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


def _ways(ways: Sequence[Way]) -> list[Block]:
    if not ways:
        return [Paragraph("These traces do not have the events of daemons that this needs.")]
    rows = [Bar(way.service, tuple(max(0.0, stage.mean_us) for stage in way.stages)) for way in ways]
    numbers = Table(
        "Parts of the way, mean / p50 / p99",
        ("service", "deliveries", *STAGES),
        [
            (
                way.service,
                f"{way.deliveries:,}",
                *(
                    " / ".join(map(duration, (stage.mean_us, stage.p50_us, stage.p99_us)))
                    for stage in way.stages
                ),
            )
            for way in ways
        ],
    )
    text = (
        "A message waits until its daemon gives it a place in the order (longer if a view is being formed, "
        "or under back-pressure), travels to the receiver's daemon, waits there for its turn (agreed: until "
        "nothing earlier can come; safe: until all are known to have it), and is read by the application."
    )
    chart = BarChart("Parts of the way", _WAY_NAMES, rows, "mean time", duration)
    return [Paragraph(text), Figure("Mean time of each part, by service", chart), numbers]


# Time -----------------------------------------------------------------------------------------------------


def _stories(report: Report) -> list[Block]:
    if not report.stories:
        return [Paragraph("There is no run to be drawn.")]
    some = len(report.stories) < len(report.runs)
    intro = f"The {len(report.stories)} runs with most deliveries, of {len(report.runs)}. " if some else ""
    runs = {run.name: run for run in report.runs}
    return [
        Paragraph(f"{intro}Time counts from the first event of a run."),
        *(block for story in report.stories for block in _story(story, runs[story.run])),
    ]


def _story(story: Story, run: Run) -> list[Block]:
    per_s = 1e6 / story.step_us
    lines = (
        Line("sent", tuple((rate.start_us, rate.sent * per_s) for rate in story.rates)),
        Line("delivered", tuple((rate.start_us, rate.delivered * per_s) for rate in story.rates)),
    )
    chart = LineChart(
        f"Throughput of {story.run}",
        lines,
        ("time since the run began", "messages per second"),
        (duration, short_count),
        [(float(moment), f"view at {duration(moment)}") for moment in story.moments_us[:_MOMENTS_MAX]],
        "a daemon view was installed",
    )
    caption = f"Throughput in steps of {duration(story.step_us)}"
    return [Heading(story.run), Figure(caption, chart), _timeline(story, run)]


def _timeline(story: Story, run: Run) -> Block:
    names = sorted({span.daemon for span in story.spans}, key=_natural)
    if not names:
        return Paragraph("There are no events of daemons in this run.", "soft")
    shown = names[:_DAEMONS_MAX]
    rows: Mapping[str, list[Span]] = {name: [] for name in shown}
    for span in story.spans:
        if span.daemon in rows:
            colour = _WORKS if span.is_working else _STATE_COLOURS.get(span.state, _SEARCHES)
            when = f"at {duration(span.start_us)} for {duration(span.end_us - span.start_us)}"
            hint = f"{span.daemon}: {span.state} ({span.reason}) {when}"
            rows[span.daemon].append(Span(span.start_us, span.end_us, colour, hint))
    chart = Timeline(
        f"Membership in {story.run}",
        rows,
        "time since the run began",
        duration,
        (0.0, float(run.span_us)),
        _STATE_LEGEND,
    )
    return Figure(f"What the membership of each daemon went through. {_cut(names, shown)}", chart)


# Views ----------------------------------------------------------------------------------------------------


def _views(report: Report) -> list[Block]:
    if not report.installations_count:
        return [Paragraph("There are no events of daemons in these traces.")]
    words = Paragraph(
        "A pause is a time in which a daemon took no message of a client: from giving up its view, or "
        "taking a proposal, to the next view. The reason is why the daemon left its view; "
        "antiphon explain tells more of a cluster that runs."
    )
    pauses = _spreads("Pauses, by reason", "reason", report.pauses_by_reason, "pauses")
    some_runs = len(report.runs) > 1
    longest = Table(
        "The longest pauses",
        (*(("run",) if some_runs else ()), "daemon", "reason", "ended by", "began", "took"),
        [
            (
                *((one.run,) if some_runs else ()),
                one.daemon,
                one.reason,
                {"": "(end of trace)", "crash": "crash", "stop": "planned stop"}.get(one.ended, "new view"),
                duration(one.start_us),
                duration(one.took_us),
            )
            for one in report.pauses
        ],
        numbers_from=4 if some_runs else 3,
    )
    shown = report.installations
    of_all = f" ({len(shown)} of {report.installations_count:,}: those that took longest)"
    changes = Table(
        f"Daemon views{of_all if len(shown) < report.installations_count else ''}",
        ("run", "reasons", "members", "first installed", "last installed"),
        [
            (
                one.run,
                ", ".join(one.reasons),
                f"{len(one.members)}: {_names(one.members)}",
                duration(one.first_us),
                f"+ {duration(one.last_us - one.first_us)}",
            )
            for one in shown
        ],
        numbers_from=3,
    )
    return [words, *pauses, longest, changes]


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return ", ".join(names[:_NAMES_MAX]) + more


# Links ----------------------------------------------------------------------------------------------------


def _links(report: Report) -> list[Block]:
    if not report.links:
        return [Paragraph("There are no samples of links in these traces.")]
    rows = [(f"{link.origin} → {link.target}", link.resent_share) for link in report.links]
    drawn: Block = Paragraph("No link sent anything again.")
    if any(part for _, part in rows):
        shown = f"{len(report.links)} of {report.links_count:,} links"
        chart = bar_chart("Packets sent again", rows, "part of the packets that was sent again", share)
        drawn = Figure(f"What was sent again, of all that left; {shown}", chart)
    words = Paragraph(
        "Every packet that is lost is sent again. What was sent again and came twice was not lost. "
        "Each end counts for itself and is looked at now and then, so the end of a view may be missing."
    )
    numbers = Table(
        "Links, in numbers",
        ("link", "run", "packets", "resent", "lost", "duplicates", "failures", "round trip"),
        [_link_row(link) for link in report.links],
        numbers_from=2,
    )
    return [words, drawn, numbers]


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


def _talkers(report: Report) -> list[Block]:
    if not report.talkers:
        return [Paragraph("No session sent a message.")]
    only = f"{report.runs[0].name} " if len(report.runs) == 1 else ""
    rows = [(one.name.removeprefix(only), float(one.sent)) for one in report.talkers]
    return [
        Figure("Processes that sent most", bar_chart("Messages sent", rows, "messages sent", count)),
        _talker_table("Processes", "process", report.talkers),
        _talker_table("Groups", "group", report.busiest_groups),
    ]


def _talker_table(caption: str, noun: str, rows: Sequence[Talker]) -> Block:
    return Table(
        caption,
        (noun, "sent", "delivered", "deliveries per message"),
        [
            (
                one.name,
                f"{one.sent:,}",
                f"{one.delivered:,}",
                count(one.delivered / one.sent) if one.sent else "",
            )
            for one in rows
        ],
    )


def _runs(report: Report) -> list[Block]:
    shown = report.runs[:_RUNS_MAX]
    runs = Table(
        f"Runs. {_cut(report.runs, shown)}",
        (
            "run", "kind", "daemons", "events", "sent", "delivered", "views", "signals", "stops", "crashes",
            "time",
        ),
        [
            (
                run.name,
                "live" if run.live else "simulated",
                *(
                    f"{number:,}"
                    for number in (
                        run.daemons, run.events, run.sent, run.delivered, run.views, run.signals,
                        run.stops, run.crashes,
                    )
                ),
                duration(run.span_us),
            )
            for run in shown
        ],
        numbers_from=2,
    )  # fmt: skip
    events = Table("Events", ("event", "times"), [(name, f"{n:,}") for name, n in report.events.items()])
    return [runs, events]
