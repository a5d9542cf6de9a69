"""The errors: one tree, drawn in the docstring as it is in the code."""

import inspect
import re

import pytest

from antiphon import errors
from antiphon.errors import (
    AntiphonError,
    BadFrame,
    BadPacket,
    ConnectError,
    Disconnected,
    Refused,
    UsageError,
)


def drawn_tree() -> dict[str, str]:
    """Each error in the docstring's drawing, with the one it hangs from."""
    parents: dict[str, str] = {}
    above: dict[int, str] = {}
    for line in inspect.getdoc(errors).splitlines():  # type: ignore[union-attr]
        names = re.match(r"(    [ │├└─]*)([A-Z]\w+(?:, [A-Z]\w+)*)", line)
        if names is None:
            continue
        depth = len(names[1])
        for name in names[2].split(", "):
            nearest = max((column for column in above if column < depth), default=None)
            parents[name] = above[nearest] if nearest is not None else ""
        above = {column: name for column, name in above.items() if column < depth}
        above[depth] = names[2]
    return parents


def built_tree() -> dict[str, str]:
    """Each error class of the module, with the error class it derives from."""
    classes = {
        name: member
        for name, member in vars(errors).items()
        if inspect.isclass(member) and member.__module__ == errors.__name__
    }
    return {
        name: next((base.__name__ for base in member.__bases__ if issubclass(base, AntiphonError)), "")
        for name, member in classes.items()
    }


def test_the_drawing_shows_the_tree() -> None:
    assert drawn_tree() == built_tree()


def test_errors_are_also_what_python_programs_expect() -> None:
    assert issubclass(UsageError, ValueError)
    assert issubclass(ConnectError, OSError)
    assert issubclass(Disconnected, ConnectionError)


def test_a_refusal_carries_the_daemons_words() -> None:
    refused = Refused("name-taken", "another session is called ann")
    assert str(refused) == "another session is called ann (name-taken)"
    assert (refused.code, refused.reason) == ("name-taken", "another session is called ann")


def test_a_disconnection_tells_of_messages_with_an_unknown_fate() -> None:
    assert str(Disconnected("slow-receiver")) == "disconnected: slow-receiver"
    ended = Disconnected("the socket closed", 3)
    assert str(ended) == "disconnected: the socket closed; 3 sent messages have an unknown fate"
    assert (ended.reason, ended.unknown_fate) == ("the socket closed", 3)


@pytest.mark.parametrize("kind", [BadPacket, BadFrame])
def test_bad_bytes_carry_a_reason(kind: type[BadPacket] | type[BadFrame]) -> None:
    assert kind("packet: too short").reason == str(kind("packet: too short")) == "packet: too short"
