"""Every option of a spread.conf: what may stand behind it, and what Antiphon does instead.

Nothing but the choice between a local and a wide-area network is taken over, and access control, which is
told in `translation`: the rest has no counterpart, or its figures would be wrong here.
"""

import difflib
from typing import Literal

from msgspec import Struct

from antiphon import limits

Shape = Literal["text", "number", "yes or no", "flags", "nothing", "text or nothing", "anything"]

ALLOWED_METHODS = "AllowedAuthMethods"
REQUIRED_METHODS = "RequiredAuthMethods"
POLICY = "AccessControlPolicy"
WIDE_AREA = "WideAreaNetwork"

YES_OR_NO = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
"""The values of a switch, in lower case; a file may write them in any case."""

_FLAGS = (
    "ALL NONE EXIT PRINT DEBUG DATA_LINK NETWORK PROTOCOL SESSION CONFIGURATION MEMBERSHIP FLOW_CONTROL "
    "STATUS EVENTS GROUPS MEMORY SKIPLIST ACM SECURITY"
)


class Keyword(Struct, frozen=True):
    """An option that Spread knows."""

    shape: Shape
    instead: str
    """What Antiphon does; empty if the option is taken over or `translation` has the words."""
    known: tuple[str, ...] = ()
    """The values that Spread takes, if they are words; their case does not matter."""


class Option(Struct, frozen=True):
    """An option as it stands in a file."""

    keyword: str
    words: tuple[str, ...]
    """Its value; none for an option that needs none."""
    line: int


def _timeout(counterpart: str) -> Keyword:
    return Keyword(
        "number",
        f"not taken over, because our membership needs other figures: {counterpart}; "
        "membership in [cluster] chooses the preset",
    )


_LOG = "the daemon logs to stderr all that its operator should know"
_NO_SWITCH = "there is one protocol for a ring, and nothing to switch in it"
_RING_WINDOW = (
    f"not configurable: on a ring up to {limits.RING_ROUND_PACKETS} packets are sent a round, "
    f"{limits.RING_MEMBER_PACKETS} by one daemon; between sites window_bytes of a [[link]] is the limit"
)
_USER = (
    "the daemon stays who started it: start it as the right user, for example by User= and Group= of systemd"
)

KEYWORDS: dict[str, Keyword] = {
    "DebugFlags": Keyword(
        "flags", f"{_LOG}; antiphon status and antiphon explain tell the rest", tuple(_FLAGS.split())
    ),
    "EventPriority": Keyword(
        "text",
        f"{_LOG}, with the level on each line",
        ("pDEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "FATAL"),
    ),
    "EventLogFile": Keyword("text", "the daemon logs to stderr: redirect that, or leave it to systemd"),
    "EventTimeStamp": Keyword("text or nothing", "every line of the log begins with its date and time"),
    "EventPreciseTimeStamp": Keyword("nothing", "every line of the log has the time in milliseconds"),
    "DangerousMonitor": Keyword(
        "yes or no", "nothing can change a running daemon: antiphon status and antiphon explain only look"
    ),
    "SocketPortReuse": Keyword(
        "text",
        "nothing to choose: UDP ports are never shared, TCP ports are free again as soon as a daemon ends",
        ("ON", "OFF", "AUTO"),
    ),
    "RuntimeDir": Keyword(
        "text", "the daemon keeps its root directory: confine it otherwise, for example by systemd"
    ),
    "DaemonUser": Keyword("text", _USER),
    "DaemonGroup": Keyword("text", _USER),
    ALLOWED_METHODS: Keyword("text", ""),
    REQUIRED_METHODS: Keyword("text", ""),
    POLICY: Keyword("text", ""),
    "MaxSessionMessages": Keyword(
        "number",
        "what waits for a client is counted in bytes, not in messages: it is warned at output_soft_bytes and "
        "disconnected at output_hard_bytes, both in [cluster]",
    ),
    "Window": Keyword("number", _RING_WINDOW),
    "PersonalWindow": Keyword("number", _RING_WINDOW),
    "AcceleratedRing": Keyword("yes or no", _NO_SWITCH),
    "AcceleratedWindow": Keyword("number", _NO_SWITCH),
    "TokenTimeout": _timeout("suspect_ms says how much silence looks like a failure"),
    "HurryTimeout": _timeout("a lost token is sent again after a wait that follows from measured rounds"),
    "AliveTimeout": _timeout("idle daemons hear each other every 4/7 of suspect_ms"),
    "JoinTimeout": _timeout("join_ms says how often daemons repeat what they know while they gather"),
    "RepTimeout": _timeout("a site speaks to the others after segment_ms and then waits gather_ms for them"),
    "SegTimeout": _timeout("segment_ms says how long the daemons of one site compare what they see"),
    "GatherTimeout": _timeout("gather_ms says how long daemons collect who is there"),
    "FormTimeout": _timeout("recovery_ms says after how long an exchange that does not move is begun anew"),
    "LookupTimeout": _timeout("probe_ms and probe_max_ms say how often daemons that are away are looked for"),
    WIDE_AREA: Keyword("yes or no", ""),
    "ActiveIPVersion": Keyword(
        "text", "follows from the addresses of the daemons, which must be of one version", ("IPv4", "IPv6")
    ),
    "ExcludeSegAddrsFromHash": Keyword(
        "yes or no", "daemons compare everything about sites and links: give each of them the same file"
    ),
    "IgnoreMulticastJoinErrors": Keyword(
        "yes or no", "always so: where multicast does not work, each daemon of the site is sent a copy"
    ),
    "LinkProtocol": Keyword("anything", "protocol of a [[link]] chooses hop or tcp for two sites"),
    "RouteMatrix": Keyword("anything", "cost of a [[link]] decides which way messages take between sites"),
    "DebugInitialSequence": Keyword("anything", "numbers of packets begin where they please, and may wrap"),
}


def unknown_words(option: Option) -> list[str]:
    """Those words of its value that Spread does not know."""
    known = {word.upper() for word in KEYWORDS[option.keyword].known}
    return [word for word in option.words if known and word.removeprefix("!").upper() not in known]


def nearest_keyword(word: str) -> str | None:
    """The option whose name is most like `word`, for a hint about a typing mistake.

    >>> nearest_keyword("requiredauthmethods")
    'RequiredAuthMethods'
    """
    lower = {keyword.lower(): keyword for keyword in KEYWORDS}
    near = difflib.get_close_matches(word[:100].lower(), lower, 1, 0.8)
    return lower[near[0]] if near else None
