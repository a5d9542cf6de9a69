"""What a user may do, decided once for each session and name.

Follows: RFC 4949's least privilege: what no rule allows is refused. The papers leave access open; Spread has
hooks for it, and a module that knows addresses alone.
Checked by: tests/unit/test_rights.py, tests/runtime/test_access.py, the scenario `users` and the oracle's
*access*.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from antiphon.config.access import (
    EVERYONE,
    GROUP_VERBS,
    VERBS,
    AccessFile,
    AccessUser,
    UserLimits,
    Verb,
)
from antiphon.core.access.bucket import Bucket

NOT_ALLOWED = "not-allowed"
"""The code of a refusal because of the access list."""
AT_LIMIT = "user-limit"
"""The code of a refusal because all sessions of a user take as much as they may."""
NAMES_MAX = 4_096
"""Decisions that are remembered for one session."""


class Rule(Struct, frozen=True):
    """Something that a user may do."""

    verbs: frozenset[Verb]
    groups: re.Pattern[str] | None
    """Names to which it may be done; None for what is done to no group."""


class User(Struct, frozen=True):
    """A user of the list with what it may do."""

    name: str
    rules: tuple[Rule, ...] | None
    """None: everything."""
    priority_max: int
    limits: UserLimits

    def may(self, verb: Verb, name: str = "") -> bool:
        """Whether it may do this, to the group or the private name if it is done to one."""
        if self.rules is None:
            return True
        if verb not in GROUP_VERBS:
            return any(verb in rule.verbs for rule in self.rules)
        return any(
            verb in rule.verbs and rule.groups is not None and rule.groups.fullmatch(name) is not None
            for rule in self.rules
        )


def users_of(file: AccessFile) -> dict[str, User]:
    """The users of a list, by name."""
    return {user.name: _user(file, user) for user in file.user}


def _user(file: AccessFile, user: AccessUser) -> User:
    rules = tuple(
        Rule(frozenset(rule.may), _pattern(rule.groups))
        for rule in file.allow
        if user.name in rule.users or EVERYONE in rule.users
    )
    return User(user.name, rules if file.allow else None, user.priority_max, file.limits_of(user))


def _pattern(names: Sequence[str]) -> re.Pattern[str] | None:
    """
    >>> bool(_pattern(["orders.*", "news"]).fullmatch("orders.eu")), _pattern(["news"]).fullmatch("newsroom")
    (True, None)
    """
    if not names:
        return None
    return re.compile("|".join(".*".join(map(re.escape, name.split("*"))) for name in names), re.DOTALL)


class Usage:
    """What all sessions of one user take together at this daemon."""

    def __init__(self, limits: UserLimits, now_us: int) -> None:
        self.sessions = 0
        self.groups = 0
        self.limits = limits
        self.bytes: Bucket | None = None
        self.messages: Bucket | None = None
        self.change(limits, now_us)

    def change(self, limits: UserLimits, now_us: int) -> None:
        """The list has been read again."""
        self.limits = limits
        self.bytes = _bucket(self.bytes, limits.bytes_per_s, now_us)
        self.messages = _bucket(self.messages, limits.messages_per_s, now_us)

    @property
    def has_room_for_session(self) -> bool:
        most = self.limits.sessions
        return most is None or self.sessions < most

    @property
    def has_room_for_group(self) -> bool:
        most = self.limits.groups
        return most is None or self.groups < most


def _bucket(bucket: Bucket | None, rate_per_s: int | None, now_us: int) -> Bucket | None:
    """One with this rate: the same, with what it owes, if that is its rate already."""
    if rate_per_s is None:
        return None
    return bucket if bucket is not None and bucket.rate_per_s == rate_per_s else Bucket(rate_per_s, now_us)


class Rights:
    """What one session may do."""

    def __init__(self, user: User, usage: Usage) -> None:
        self.user = user
        self.usage = usage
        self.allowed: set[bytes] = set()
        """Names areas of bundles that the session may send."""
        self.renewals = 0
        """How often the list was read again."""
        self.has_refused = False
        """Whether something that the session has sent was refused since then."""

    def renew(self, user: User) -> None:
        """The list was read again."""
        self.user = user
        self.allowed.clear()
        self.renewals += 1
        self.has_refused = False

    def remember(self, area: bytes) -> None:
        """The session may send bundles with these names."""
        if len(self.allowed) >= NAMES_MAX:
            self.allowed.clear()
        self.allowed.add(area)

    def missing(self, verb: Verb, name: str) -> str:
        """Why the session may not do this, or an empty text."""
        if self.user.may(verb, name):
            return ""
        return f"user {self.user.name!r} may not {_WORDS[verb]} {name[:64]!r}"


_WORDS: dict[Verb, str] = dict(zip(VERBS, VERBS, strict=True)) | {
    "send": "send to", "lock": "use locks of",
}  # fmt: skip
