"""A view change while 50,000 messages are in flight: what is recovered, and how long clients wait.

    .venv/bin/python bench/inflight.py

Plays the scenario `inflight` of the simulator in virtual time, once with a partition and once with a crash,
and lets the oracle judge it. `in flight` counts the messages that were sent and not yet delivered at every
member at the moment of the cut. The pause of a client is the longest time from the cut on in which nothing
was delivered to it although more was to come.
"""

from time import perf_counter

from antiphon.core.membership.rounds import Round
from antiphon.simulator.oracle import judge
from antiphon.simulator.play import play
from antiphon.simulator.scenarios import plan_of
from antiphon.simulator.scenarios.inflight import CUT_US, SITES
from antiphon.simulator.stage import Stage
from antiphon.trace import Event, Identity, Record, Trace


def in_flight(records: list[Record], cut_us: int) -> int:
    """Messages sent before the cut and not delivered at all members by then."""
    open_messages: dict[Identity, int] = {}
    for record in records:
        if record.time_us > cut_us:
            break
        if record.event is Event.SEND and record.message is not None:
            open_messages[record.message] = SITES
        elif record.event is Event.DELIVER and record.message in open_messages:
            open_messages[record.message] -= 1
    return sum(1 for missing in open_messages.values() if missing > 0)


def pauses_ms(records: list[Record], cut_us: int, until_us: int) -> list[float]:
    """For each client that lived through it, the longest wait between deliveries around the change."""
    last_us: dict[str, int] = {}
    longest_us: dict[str, int] = {}
    for record in records:
        if record.event is not Event.DELIVER or not cut_us - 5_000 <= record.time_us <= until_us:
            continue
        before_us = last_us.get(record.process, cut_us)
        longest_us[record.process] = max(longest_us.get(record.process, 0), record.time_us - before_us)
        last_us[record.process] = record.time_us
    return sorted(round(us / 1_000, 1) for us in longest_us.values())


def rounds_with_recovery(stage: Stage) -> list[Round]:
    found = []
    for number in stage.world.alive:
        node = stage.world.node(number)
        assert node is not None
        found += [record for record in node.membership.rounds.past if record.recovered_bundles]
    return found


def main() -> None:
    for seed, event in ((0, "partition"), (1, "crash")):
        started_s = perf_counter()
        plan = plan_of("inflight", seed)
        stage = play(plan)
        records = stage.world.records
        cut_us = stage.begins_us + CUT_US
        trace = Trace("inflight", seed, tuple(daemon.name for daemon in plan.daemons()), records)
        violations = judge(trace)
        recoveries = rounds_with_recovery(stage)
        print(
            f"{event}: {in_flight(records, cut_us):,} messages in flight at the cut; "
            f"{len(trace.sends):,} sent, {sum(1 for r in records if r.event is Event.DELIVER):,} deliveries; "
            f"{sum(r.recovered_bundles for r in recoveries):,} bundles "
            f"({sum(r.recovered_bytes for r in recoveries):,} bytes) recovered at {len(recoveries)} daemons; "
            f"pause of the clients {', '.join(map(str, pauses_ms(records, cut_us, cut_us + 2_000_000)))} ms; "
            f"oracle: {len(violations)} violations; {perf_counter() - started_s:.0f} s of wall time"
        )
        for violation in violations[:3]:
            print(violation)


if __name__ == "__main__":
    main()
