"""The rules of the fuzzer: each looks at what was seen, and says in words what is wrong, or nothing.

Some hold at every door. At the doors of daemons (`udp`, `tcp`) a mutant may be what an honest daemon could
have sent, since nothing is sealed with a key: then views may change, and honest messages may be forged, lost
with a change of the view, or repeated. At the doors of clients nothing of that is allowed.
"""

from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from antiphon.lab.fuzz.plan import PATIENCE_S
from antiphon.lab.soak.rules import Verdict
from antiphon.plots.words import size

GROWTH_RATIO = 1.25
GROWTH_BYTES = 24_000_000
"""Memory counts as flat if the median of the last third of the spells is not above that of the second third,
times the one and plus the other: more than what an allocator and another order of events make of one load."""
PEAK_BYTES = 768_000_000
"""The most that a process may ever have had: its bounds together are well below."""
LOOKS_MIN = 9
"""Fewer spells are no time for memory to show what it does."""
BROKEN_FRAME = ("frame", "bundle:")
"""Words in the reason of a session's end: the client was sent what is no frame."""


class Look(Struct, frozen=True):
    """What was seen after one spell."""

    spell: int
    kind: str
    first: int
    mutants: int
    seconds: float
    """How long the mutants took."""
    flows_after_s: float | None
    """From the end of the spell until messages flowed from every daemon to every other; None: never."""
    unheard: tuple[str, ...] = ()
    """The pairs of daemons between which no message came, if messages never flowed again."""
    complaints: dict[str, str] = {}
    """If never, and at the end: what `antiphon status` complains of at each daemon, empty if it exits 0."""
    memory_bytes: dict[str, int] = {}
    ended: tuple[str, ...] = ()
    """Processes that ended by themselves, in words."""

    @property
    def where(self) -> str:
        """Where the finding was made, for a person who wants to repeat it."""
        return f"after spell {self.spell} ({self.kind}, mutants from {self.first})"


def flow(looks: Sequence[Look]) -> Verdict:
    """Messages flow again after every spell."""
    faults = tuple(
        f"{look.where} messages did not flow in time{_silence(look)}"
        for look in looks
        if look.flows_after_s is None
    )
    promise = (
        f"within {PATIENCE_S:.0f} s after each spell, or after the end of the time for which daemons are "
        "left out, agreed messages come from every daemon to every other"
    )
    return Verdict("flow", promise, faults)


def _silence(look: Look) -> str:
    return f"; nothing came {', '.join(look.unheard)}" if look.unheard else ""


def status(looks: Sequence[Look]) -> Verdict:
    """`antiphon status` tells the truth: whole where messages flow, and nowhere else."""
    faults = []
    for look in looks:
        complaining = {name: words for name, words in look.complaints.items() if words}
        if look.flows_after_s is None and look.complaints and not complaining:
            faults.append(f"{look.where} every daemon says that messages flow, and they do not")
        elif look.flows_after_s is not None and complaining:
            told = ", ".join(f"{name}: {words}" for name, words in complaining.items())
            faults.append(f"{look.where} messages flow, and still {told}")
    return Verdict(
        "status",
        "`antiphon status` exits 0 at every daemon if messages flow, and not if they do not",
        tuple(faults),
    )


def processes(looks: Sequence[Look], mistakes: Sequence[str]) -> Verdict:
    """No process ends, and no log tells of a mistake."""
    faults = [f"{look.where} {words}" for look in looks for words in look.ended]
    return Verdict(
        "processes", "no daemon and no journal ends by itself, no log has a traceback", (*faults, *mistakes)
    )


def memory(looks: Sequence[Look], peaks: dict[str, int]) -> Verdict:
    """Flat, and never beyond the bound."""
    faults = [
        f"{name} had {size(most)} at its peak; {size(PEAK_BYTES)} is the bound"
        for name, most in peaks.items()
        if most > PEAK_BYTES
    ]
    third = len(looks) // 3
    if len(looks) >= LOOKS_MIN:
        for name in looks[-1].memory_bytes:
            middle, last = (
                [look.memory_bytes[name] for look in some if name in look.memory_bytes]
                for some in (looks[third : 2 * third], looks[-third:])
            )
            if middle and last:
                most = GROWTH_RATIO * median(middle) + GROWTH_BYTES
                if median(last) > most:
                    faults.append(
                        f"{name} grew from {size(round(median(middle)))} to {size(round(median(last)))}; "
                        f"at most {size(round(most))} is flat"
                    )
    promise = (
        f"the median of the last third of the spells is at most {GROWTH_RATIO:g} times that of the second "
        f"third and {size(GROWTH_BYTES)} more; no process ever has more than {size(PEAK_BYTES)}"
    )
    return Verdict("memory", promise, tuple(faults))


def frames(ends: Sequence[str]) -> Verdict:
    """No client is handed what it cannot read."""
    faults = tuple(words for words in ends if any(part in words for part in BROKEN_FRAME))
    return Verdict("frames", "no honest client gets a broken frame", faults)


def sessions(ends: Sequence[str], restarts: int) -> Verdict:
    """No honest session ends, but with a cluster that had to be started again."""
    faults = () if restarts else tuple(ends)
    return Verdict("sessions", "no session of an honest client ends", faults)


def messages(
    altered: int,
    missed: Sequence[str],
    repeated: Sequence[str],
    disorder: Sequence[str],
    views: Sequence[str],
) -> Verdict:
    """At the doors of clients, honest clients notice nothing at all."""
    faults = [*missed, *repeated, *disorder, *views]
    if altered:
        faults.append(f"{altered} messages in the name of honest clients were not theirs")
    return Verdict(
        "messages",
        "honest clients get every message once, unaltered, in one order, without a change of the view",
        tuple(faults),
    )


def journal(readable: int, fault: str) -> Verdict:
    """What the journal wrote can be read."""
    faults = (f"after {readable:,} rows: {fault}",) if fault else ()
    return Verdict(
        "journal", "every row of the journal can be read, with offsets that follow one another", faults
    )


def readers(findings: Sequence[str]) -> Verdict:
    """Whoever has a wrong file is told so, and in words."""
    return Verdict(
        "readers",
        "a file is accepted and means something, or it is refused with one clear error without its secrets",
        tuple(findings),
    )


def prompt(slow: Sequence[str]) -> Verdict:
    """No file keeps its reader busy."""
    return Verdict("prompt", "no file takes more than a second of the processor", tuple(slow))


def trials(looks: Sequence[Look], kinds: Sequence[str], spells: int) -> Verdict:
    """Mutants of every kind were sent: else the other rules would say less than they seem to."""
    sent = {look.kind for look in looks if look.mutants}
    missing = [kind for kind in kinds[:spells] if kind not in sent]
    faults = (f"no mutant of {', '.join(missing)}",) if missing else ()
    return Verdict("trials", "mutants of every kind whose turn came were sent", faults)
