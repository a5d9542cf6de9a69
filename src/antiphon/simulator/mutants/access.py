"""Access lists that forbid too little, or that cost others something."""

from typing import Any

from antiphon.core.access.rights import Rights
from antiphon.core.admission import Admission
from antiphon.core.groups import requests
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.wire import bundle as bundles
from antiphon.wire.bundle import Header


def _nothing(original: Original) -> Original:
    return lambda *_, **__: None


def _first_name_alone(original: Original) -> Original:
    def denial(header: Header, rights: Rights) -> Any:
        first = bundles.parse_names(header.names)[1:2]
        if any(rights.missing("send", name) for name in first):
            return original(header, rights)
        rights.remember(header.names)
        return None

    return denial


def _remembers_what_is_refused(original: Original) -> Original:
    def denial(header: Header, rights: Rights) -> Any:
        found = original(header, rights)
        if found is not None:
            rights.remember(header.names)
        return found

    return denial


def _has_no_number(original: Original) -> Original:
    def deny(admission: Admission, origin: Any, session: Any, pending: Any, denial: Any) -> None:
        before = session.sequence
        original(admission, origin, session, pending, denial)
        session.sequence = before

    return deny


ACCESS: tuple[Mutant, ...] = (
    Mutant(
        "anybody sends", "what a session sends is not looked at",
        frozenset(("access",)), requests, "_denial", _nothing, "users",
    ),
    Mutant(
        "anybody joins", "a session joins whatever it asks for",
        frozenset(("access",)), requests, "_cannot_join", _nothing, "users", shown_by=9,
    ),
    Mutant(
        "the first group alone", "of the groups of a message only the first is looked at",
        frozenset(("access",)), requests, "_denial", _first_name_alone, "users",
    ),
    Mutant(
        "refused once", "what was refused once is sent the next time",
        frozenset(("access",)), requests, "_denial", _remembers_what_is_refused, "users",
    ),
    Mutant(
        "refused without a number", "messages after a refused one have its number",
        frozenset(("2.10", "2.11", "2.12", "2.15")), Admission, "_deny", _has_no_number, "users",
    ),
)  # fmt: skip
