"""The access list: a TOML text of its own, so that a daemon can read it again while it runs.

    [limits]                        # of each user who has no others
    sessions = 100

    [[user]]
    name = "orders"
    unix = ["orders", 1001]         # connections over unix sockets of these users of the machine
    certificate = ["orders.example"]  # certificates with this common or alternative name
    token_file = "orders.token"     # a token in each line
    priority_max = 5
    limits = { bytes_per_s = 10_000_000 }

    [[user]]
    name = "guest"
    anyone = true                   # whoever else can connect

    [[allow]]
    users = ["orders"]
    groups = ["orders.*"]
    may = ["join", "send", "lock", "call"]

    [[allow]]
    users = ["*"]
    may = ["status"]

Without any [[allow]], each of the users may do everything. `parse_access` turns the text into an `AccessFile`
or raises a ConfigError: one sentence that names the line, the key and what was expected.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, structs

from antiphon.config.faults import Fault, Key, explain, read_complaint, read_toml
from antiphon.config.key_lines import KeyLines
from antiphon.errors import ConfigError
from antiphon.types import PRIORITY_MAX

Verb = Literal["join", "send", "lock", "call", "status", "trace", "attach", "reload"]
VERBS: tuple[Verb, ...] = ("join", "send", "lock", "call", "status", "trace", "attach", "reload")
GROUP_VERBS: frozenset[Verb] = frozenset({"join", "send", "lock", "call"})
"""Those that are allowed group by group."""
EVERYONE = "*"
"""All users of the list, in a rule."""
USERS_MAX = 10_000
RULES_MAX = 10_000

_Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]
_Rate = Annotated[int, Meta(ge=1, le=1_000_000_000_000)]


class UserLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """What all sessions of one user may take together at one daemon; None is no limit."""

    sessions: _Count | None = None
    groups: _Count | None = None
    """Memberships, over all of its sessions."""
    bytes_per_s: _Rate | None = None
    messages_per_s: _Rate | None = None


class AccessUser(Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody who may connect, and how a connection is known to be theirs."""

    name: str
    unix: tuple[int | str, ...] = ()
    """Numbers or names of users of the daemon's machine."""
    certificate: tuple[str, ...] = ()
    token_file: str = ""
    token_expires: Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")] = ""
    """The day from which on the tokens count no more, in UTC, such as "2030-12-31"; empty: they always do."""
    anyone: bool = False
    """Whether connections are theirs that are nobody else's."""
    priority_max: Annotated[int, Meta(ge=0, le=PRIORITY_MAX)] = PRIORITY_MAX
    limits: UserLimits | None = None


class AccessRule(Struct, frozen=True, forbid_unknown_fields=True):
    """Something that some users may do."""

    users: tuple[str, ...]
    may: tuple[Verb, ...]
    groups: tuple[str, ...] = ()
    """Patterns of names of groups, and of private names, in which `*` stands for any text."""


class AccessFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole list, checked."""

    user: tuple[AccessUser, ...]
    allow: tuple[AccessRule, ...] = ()
    limits: UserLimits = UserLimits()

    def limits_of(self, user: AccessUser) -> UserLimits:
        """The limits of one user: its own, and those of all where it has none."""
        if user.limits is None:
            return self.limits
        own = {name: value for name, value in structs.asdict(user.limits).items() if value is not None}
        return structs.replace(self.limits, **own)


_TABLES: dict[Key, type[Struct]] = {
    (): AccessFile,
    ("user",): AccessUser,
    ("user", "limits"): UserLimits,
    ("allow",): AccessRule,
    ("limits",): UserLimits,
}


def parse_access(text: str, source: str = "access list") -> AccessFile:
    """The access list in `text`, or a ConfigError. `source` is how messages call the text."""
    tree = read_toml(text, source)
    try:
        try:
            file = msgspec.convert(tree, AccessFile)
        except msgspec.ValidationError as error:
            raise read_complaint(str(error), _TABLES) from None
        _check(file)
    except Fault as fault:
        raise ConfigError(explain(fault, source, KeyLines(text).of(fault.key))) from None
    return file


def _check(file: AccessFile) -> None:
    if not file.user:
        raise Fault(("user",), "expected at least one [[user]]: without one, no client can connect")
    for what, most, found in (("user", USERS_MAX, len(file.user)), ("allow", RULES_MAX, len(file.allow))):
        if found > most:
            raise Fault((what, most), f"expected at most {most:,} of these, got {found:,}")
    seen: dict[tuple[str, object], str] = {}
    for place, user in enumerate(file.user):
        key: Key = ("user", place)
        if not user.name or user.name == EVERYONE or not user.name.isprintable():
            raise Fault((*key, "name"), "expected a name")
        if not (user.unix or user.certificate or user.token_file or user.anyone):
            expected = (
                "expected unix, certificate, token_file or anyone: otherwise no client matches this user"
            )
            raise Fault(key, expected)
        if user.token_expires and not user.token_file:
            raise Fault((*key, "token_expires"), "expected token_file beside it")
        if "\0" in user.token_file:
            raise Fault((*key, "token_file"), "expected the name of a file")
        proofs: list[tuple[str, object]] = [("name", user.name)]
        proofs += [("unix", one) for one in user.unix]
        proofs += [("certificate", one) for one in user.certificate]
        proofs += [("anyone", True)] if user.anyone else []
        for proof in proofs:
            if proof in seen:
                raise Fault((*key, proof[0]), f"{proof[1]!r} stands for user {seen[proof]!r} already")
            seen[proof] = user.name
    known = {user.name for user in file.user}
    for place, rule in enumerate(file.allow):
        for index, name in enumerate(rule.users):
            if name not in known and name != EVERYONE:
                raise Fault(("allow", place, "users", index), f"no user is called {name!r}")
        if not rule.users or not rule.may:
            raise Fault(("allow", place), "expected at least one of users, and at least one word in may")
        if rule.groups and not GROUP_VERBS.intersection(rule.may):
            raise Fault(("allow", place, "groups"), "expected join, send, lock or call in may, or no groups")
        if not rule.groups and (apart := sorted(GROUP_VERBS.intersection(rule.may))):
            raise Fault(("allow", place), f"expected groups: {', '.join(apart)} is allowed group by group")
