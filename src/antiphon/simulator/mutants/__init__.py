"""Deliberately broken protocols: the proof that the oracle can fail.

Each mutant replaces one method, property or function of the core while it is active, and says which
properties it must break within how many seeds of which scenario. A mutant that survives is a hole in the
oracle or in the scenarios.
"""

from antiphon.simulator.mutants.access import ACCESS
from antiphon.simulator.mutants.allowance import ALLOWANCE
from antiphon.simulator.mutants.calls import CALLS
from antiphon.simulator.mutants.casts import CASTS
from antiphon.simulator.mutants.causal import CAUSAL
from antiphon.simulator.mutants.choices import CHOICES
from antiphon.simulator.mutants.clocks import CLOCKS
from antiphon.simulator.mutants.damping import DAMPING
from antiphon.simulator.mutants.edges import EDGES
from antiphon.simulator.mutants.gathering import GATHERING
from antiphon.simulator.mutants.groups import GROUPS
from antiphon.simulator.mutants.links import LINKS
from antiphon.simulator.mutants.locks import LOCKS
from antiphon.simulator.mutants.membership import MEMBERSHIP
from antiphon.simulator.mutants.misconduct import MISCONDUCT
from antiphon.simulator.mutants.mutant import Mutant
from antiphon.simulator.mutants.ordering import ORDERING
from antiphon.simulator.mutants.paths import PATHS
from antiphon.simulator.mutants.recovery import RECOVERY
from antiphon.simulator.mutants.resilience import RESILIENCE
from antiphon.simulator.mutants.ring import RING
from antiphon.simulator.mutants.roles import ROLES
from antiphon.simulator.mutants.sealing import SEALING
from antiphon.simulator.mutants.slices import SLICES
from antiphon.simulator.mutants.standstill import STANDSTILL
from antiphon.simulator.mutants.stops import STOPS
from antiphon.simulator.mutants.streams import STREAMS
from antiphon.simulator.mutants.token_site import TOKEN_SITE

__all__ = ["MUTANTS", "Mutant"]

MUTANTS: tuple[Mutant, ...] = (
    *ORDERING, *MEMBERSHIP, *RECOVERY, *GROUPS, *SLICES, *STREAMS, *RING, *STANDSTILL, *STOPS, *DAMPING,
    *GATHERING, *ALLOWANCE, *LINKS, *PATHS, *CLOCKS, *CAUSAL, *ROLES, *LOCKS, *RESILIENCE, *TOKEN_SITE,
    *CALLS, *CHOICES, *EDGES, *CASTS, *SEALING, *ACCESS, *MISCONDUCT,
)  # fmt: skip
