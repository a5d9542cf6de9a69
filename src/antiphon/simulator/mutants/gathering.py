"""Mutants of bundles that are gathered into one."""

from antiphon.core.groups import sessions
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.wire.bundle import Draft, Header
from antiphon.wire.gathering import Gathering


def _whatever_the_service(original: Original) -> Original:
    def are_alike(first: Header, other: Header) -> bool:
        return first.names == other.names

    return are_alike


def _whatever_the_groups(original: Original) -> Original:
    def are_alike(first: Header, other: Header) -> bool:
        return first.service is other.service and len(first.names) == len(other.names)

    return are_alike


def _newest_first(original: Original) -> Original:
    def join(gathering: Gathering) -> Draft:
        gathering._lengths.reverse()
        gathering._payloads.reverse()
        return original(gathering)  # type: ignore[no-any-return]

    return join


GATHERING: tuple[Mutant, ...] = (
    Mutant(
        "gathered whatever the service", "messages travel with the service of the one before them",
        frozenset(("2.6",)), sessions, "are_alike", _whatever_the_service, "swarm",
    ),
    Mutant(
        "gathered whatever the groups", "messages go to the groups of the one before them",
        frozenset(("2.6",)), sessions, "are_alike", _whatever_the_groups, "swarm",
    ),
    Mutant(
        "gathered newest first", "the messages of bundles that are gathered change places",
        frozenset(("2.6",)), Gathering, "join", _newest_first, "swarm",
    ),
)  # fmt: skip
