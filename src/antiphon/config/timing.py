"""How long the membership of daemons waits for what: two presets, each figure of which a file may overrule.

Every wait trades speed against false alarms. What suits a network is measured: the waits for other daemons
follow the round trips and how much these vary (`core.membership.pace`, `suspicion`), from a floor and up to
a ceiling, and the presets give these. "wan" is for any network; "lan" has lower ceilings, for those who would
rather have a view without a daemon than wait for it. The waits concern only when something is done, never
what is then done, so daemons with different timings work together.
"""

from typing import Literal

from msgspec import Struct

HELLO_SHARE = (4, 7)
"""How often two idle daemons hear each other, as a share of the least suspicion. In what is left of it, a
daemon that does not answer is asked at least five times more."""
ASKS_PER_SUSPICION = 16
"""A daemon that owes an answer is asked again after the least suspicion, divided by this, or after the time
that an answer may take."""

Preset = Literal["lan", "wan"]


class Timing(Struct, frozen=True):
    """The waits of the membership protocol, in microseconds (thesis 6.1 names its states)."""

    suspect_us: int
    """A peer that has been silent for so long is suspected to have failed. A floor: with a peer whose answers
    take long, or once took long, a daemon is more patient, see `core.membership.suspicion`."""
    suspect_max_us: int
    """The ceiling of that patience."""
    segment_us: int
    """State SEG: how long a daemon collects what the daemons of its own site say before the site speaks
    with one voice. A floor: twice the longest round trip in the site counts, too."""
    gather_us: int
    """State GATHER: how long daemons without news of one another collect who is there before they propose a
    view of those they have. A floor, to which the longest measured round trip is added."""
    gather_max_us: int
    """The ceiling of that time."""
    join_us: int
    """While gathering, a daemon repeats what it knows so often: a loss then costs one repetition, and
    several fit into `gather_us`. A floor: half of the longest round trip counts, too."""
    probe_us: int
    """The first wait between two probes of a daemon that is not in the view; it grows with each vain probe
    up to `probe_max_us`."""
    probe_max_us: int
    """The longest wait between two probes: a healed partition is noticed within it and a round trip."""
    recovery_us: int
    """The exchange of state and of missing messages is given up, and gathering begins anew, when nothing
    has moved for so long. More than `suspect_us`: a peer that died is found out by its silence first."""
    damp_us: int
    """What was lost again must answer for so long without a break before it is in views again; doubled with
    each loss up to `damp_max_us`, so that what comes and goes cannot keep the others from working."""
    damp_max_us: int
    """The longest such time."""
    stall_us: int
    """A view in which something waits, although all neighbours are heard, and in which nothing of what is
    waited for has moved for so long, is ended. Far more than `suspect_us` and the time in which a link finds
    out that a packet does not get through; see `core.stalls` for what takes a multiple of it."""

    @property
    def hello_us(self) -> int:
        """Daemons that are idle hear each other so often."""
        share, of = HELLO_SHARE
        return self.suspect_us * share // of

    @property
    def ask_us(self) -> int:
        """The least time after which a daemon that does not answer is asked again."""
        return max(1, self.suspect_us // ASKS_PER_SUSPICION)


PRESETS: dict[Preset, Timing] = {
    "lan": Timing(
        suspect_us=600_000,
        suspect_max_us=2_500_000,
        segment_us=40_000,
        gather_us=120_000,
        gather_max_us=400_000,
        join_us=30_000,
        probe_us=250_000,
        probe_max_us=1_000_000,
        recovery_us=2_000_000,
        damp_us=1_000_000,
        damp_max_us=30_000_000,
        stall_us=10_000_000,
    ),
    "wan": Timing(
        suspect_us=700_000,
        suspect_max_us=10_000_000,
        segment_us=40_000,
        gather_us=120_000,
        gather_max_us=1_500_000,
        join_us=30_000,
        probe_us=250_000,
        probe_max_us=1_000_000,
        recovery_us=6_000_000,
        damp_us=1_000_000,
        damp_max_us=30_000_000,
        stall_us=30_000_000,
    ),
}
