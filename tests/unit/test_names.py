"""Names, identifiers and values of the vocabulary."""

import pytest

from antiphon import limits
from antiphon.errors import UsageError
from antiphon.service import Service
from antiphon.types import (
    Envelope,
    Message,
    MessageId,
    ViewId,
    check_destination,
    check_group,
    check_name,
    private_name,
)

VISIBLE = [chr(code) for code in range(ord("$"), ord("~") + 1)]


@pytest.mark.parametrize(
    "name", ["chat", "$", "~", "a.b-c_d/e", "%&'()*+,", "x" * limits.GROUP_NAME_MAX_BYTES]
)
def test_good_group_names(name: str) -> None:
    assert check_group(name) == name


def test_exactly_the_visible_characters_from_dollar_to_tilde_are_allowed() -> None:
    for character in map(chr, range(256)):
        if character in VISIBLE:
            assert check_group(f"a{character}b") == f"a{character}b"
        else:
            with pytest.raises(UsageError, match="has the character") as caught:
                check_group(f"a{character}b")
            assert repr(character) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "expectation"),
    [
        ("", "a group name may not be empty"),
        ("x" * 32, "has 32 characters; at most 31 are allowed"),
        ("y" * 100_000, "has 100000 characters; at most 31 are allowed"),
        ("two words", "group name 'two words' has the character ' '"),
        ("naïve", r"'ï'; allowed are the visible ASCII characters from '\$' to '~'"),
        ("#me#here", "has the character '#'"),
        ("line\n", r"has the character '\\n'"),
    ],
)
def test_wrong_group_names_are_explained(name: str, expectation: str) -> None:
    with pytest.raises(UsageError, match=expectation) as caught:
        check_group(name)
    assert len(str(caught.value)) < 250


def test_the_kind_of_name_and_its_limit_are_the_callers() -> None:
    with pytest.raises(UsageError, match="session name 'abcd' has 4 characters; at most 3 are allowed"):
        check_name("abcd", "session", 3)


def test_a_private_name_is_a_destination_but_not_a_group() -> None:
    name = private_name("s" * limits.SESSION_NAME_MAX_BYTES, "d" * limits.DAEMON_NAME_MAX_BYTES)
    assert name == "#ssssssssss#ddddddddddddddddddd"
    assert check_destination(name) == name
    with pytest.raises(UsageError):
        check_group(name)


def test_every_private_name_fits_where_a_group_name_fits() -> None:
    longest = private_name("s" * limits.SESSION_NAME_MAX_BYTES, "d" * limits.DAEMON_NAME_MAX_BYTES)
    assert len(longest) <= limits.GROUP_NAME_MAX_BYTES


@pytest.mark.parametrize(
    ("name", "expectation"),
    [
        ("", "group name may not be empty"),
        ("a b", "group name"),
        ("#", "session name may not be empty"),
        ("##d", "session name may not be empty"),
        ("#s", "daemon name may not be empty"),
        ("#s#", "daemon name may not be empty"),
        ("#s#d#e", "daemon name 'd#e' has the character '#'"),
        ("#" + "s" * 11 + "#d", "session name .* at most 10"),
        ("#s#" + "d" * 20, "daemon name .* at most 19"),
    ],
)
def test_wrong_destinations_are_explained(name: str, expectation: str) -> None:
    with pytest.raises(UsageError, match=expectation):
        check_destination(name)


def test_identifiers_read_well_and_sort_by_their_parts() -> None:
    assert str(MessageId(1, 0xBEEF, 2, 3)) == "1.beef.2.3"
    assert str(ViewId(1, 0, 20, 3)) == "1.0.20.3"
    assert ViewId(1, 0, 20, 3) < ViewId(1, 0, 100, 0) < ViewId(2, 0, 0, 0)
    assert MessageId(0, 9, 9, 9) < MessageId(1, 0, 0, 0)


def test_views_after_a_cut_come_after_those_before_it() -> None:
    """At one member identifiers grow: first the views of its daemon view, then those after the signal, whose
    branch is the daemon view to come, then those of that daemon view."""
    before, after, last = ViewId(10, 0, 90, 1), ViewId(10, 50, 80, 2), ViewId(50, 0, 60, 0)
    assert before < after < last
    assert ViewId(10, 50, 80, 2) != ViewId(10, 51, 80, 2)


def test_messages_of_a_restarted_daemon_are_others() -> None:
    assert MessageId(1, 7, 1, 1) != MessageId(1, 8, 1, 1)


def test_a_message_reads_its_envelope() -> None:
    envelope = Envelope("#ann#east1", ("news", "chat"), Service.SAFE, -7, 3, 0xBEEF, 4, 100, 55, 1_000)
    message = Message(b"hello", envelope, 2)
    assert message.sender == "#ann#east1"
    assert message.groups == ("news", "chat")
    assert message.group == "news"
    assert message.service is Service.SAFE
    assert message.tag == -7
    assert message.sent_us == 1_000
    assert message.id == MessageId(3, 0xBEEF, 4, 102)
