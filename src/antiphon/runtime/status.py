"""A daemon's status as JSON, never longer than a control frame may be, and what several of them tell."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from antiphon import limits

STATUS_MAX_BYTES = limits.CONTROL_FRAME_MAX_BYTES - 1_024
"""With room for the frame around it."""


def encode(told: dict[str, Any], most_bytes: int = STATUS_MAX_BYTES) -> bytes:
    """`told` as JSON. If that is too long, `sessions` and `groups` and the members of each group are cut to
    their first entries, and `left_out` says how many of each are missing.

    >>> encode({"sessions": [], "groups": {"tea": ["#ada#d1"]}})
    b'{"sessions":[],"groups":{"tea":["#ada#d1"]}}'
    """
    answer = msgspec.json.encode(told)
    keep = max(len(told["sessions"]), len(told["groups"]), *map(len, told["groups"].values()), 1)
    while len(answer) > most_bytes and keep > 1:
        keep //= 2
        answer = msgspec.json.encode(_cut(told, keep))
    return answer


def _cut(told: dict[str, Any], keep: int) -> dict[str, Any]:
    groups = {group: told["groups"][group][:keep] for group in list(told["groups"])[:keep]}
    return {
        **told,
        "sessions": told["sessions"][:keep],
        "groups": groups,
        "left_out": {
            "sessions": max(0, len(told["sessions"]) - keep),
            "groups": len(told["groups"]) - len(groups),
            "members": sum(len(told["groups"][group]) - len(some) for group, some in groups.items()),
        },
    }


def has_formed(told: Iterable[Mapping[str, Any]], daemons: Collection[str]) -> bool:
    """Whether those who told this are in one view of exactly `daemons`, and messages flow in it.

    >>> one, other = ({"view": {"id": 7, "members": ["a", "b"]}, "state": "op", "group_state": "gop"},) * 2
    >>> has_formed([one, other], ["a", "b"])
    True
    >>> has_formed([one, {**other, "state": "gather"}], ["a", "b"]), has_formed([one], ["a", "b", "c"])
    (False, False)
    """
    answers = list(told)
    return len({answer["view"]["id"] for answer in answers}) == 1 and all(
        set(answer["view"]["members"]) == set(daemons)
        and (answer["state"], answer["group_state"]) == ("op", "gop")
        for answer in answers
    )
