"""Spread's protocol to the byte: exchanges captured between its own programs, of which one side is ours.

Group identifiers are the only bytes that the protocol leaves to the daemon.
"""

import pytest

from antiphon import limits
from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.spreadwire import greeting, layout
from antiphon.spreadwire.from_spread import FromSpread
from antiphon.spreadwire.greeting import Refused
from antiphon.spreadwire.to_spread import ToSpread
from antiphon.spreadwire.views import Views, pack_id
from antiphon.types import Cause, Left, TransitionalSignal, View, ViewId
from antiphon.wire import bundle, frames

ALICE = "#alice#d1"
DAEMONS = ("d1", "d2", "d3")
VIEW_ID = ViewId(7, 0, 9, 1)


def octets(*lines: str) -> bytes:
    return b"".join(bytes.fromhex(line.partition("|")[0]) for line in lines)


def field(name: str) -> bytes:
    return name.encode("ascii") + bytes(32 - len(name))


# The introduction -----------------------------------------------------------------------------------------


def test_the_hello_of_a_program_of_5_0_1() -> None:
    data = octets("05 00 01 01 05 61 6c 69 63 65")
    parsed = greeting.parse_hello(data)
    assert parsed == (greeting.Hello((5, 0), "alice", True, 0), len(data))
    hello, _ = parsed
    assert greeting.methods(hello) == octets("05 4e 55 4c 4c 20")
    choice = b"NULL" + bytes(86)
    assert greeting.choice_bytes(hello) == len(choice)
    greeting.check_choice(choice)
    assert greeting.answer(hello, ALICE) == octets("01 05 00 01 09 23 61 6c 69 63 65 23 64 31")


def test_the_hello_of_a_library_from_before_patches_had_numbers() -> None:
    data = octets("03 0e 01 03 6f 6c 64")
    parsed = greeting.parse_hello(data)
    assert parsed == (greeting.Hello((3, 14), "old", True, 0), len(data))
    hello, _ = parsed
    assert greeting.methods(hello) == b""
    assert greeting.choice_bytes(hello) == 0
    assert greeting.answer(hello, "#old#d1") == octets("01 05 00 07") + b"#old#d1"


@pytest.mark.parametrize("size", range(10))
def test_a_hello_may_come_in_pieces(size: int) -> None:
    assert greeting.parse_hello(octets("05 00 01 01 05 61 6c 69 63 65")[:size]) is None


@pytest.mark.parametrize(
    ("hello", "answer"),
    [
        ("05 00 01 01 0b 61 61 61 61 61 61 61 61 61 61 61", "fb"),  # eleven characters
        ("05 00 01 01 03 61 23 62", "fb"),
        ("05 00 01 01 03 61 20 62", "fb"),
        ("05 00 01 01 03 61 e9 62", "fb"),
        ("03 00 01 01 03 61 61 62", "f9"),  # version 3.0
    ],
)
def test_hellos_that_are_refused(hello: str, answer: str) -> None:
    with pytest.raises(Refused) as refused:
        greeting.parse_hello(octets(hello))
    assert greeting.refusal(refused.value.code) == octets(answer)


@pytest.mark.parametrize("choice", [b"", b"IP", b"NULL".ljust(30, b"\0") + b"PWORD", b"null"])
def test_other_methods_are_refused(choice: bytes) -> None:
    with pytest.raises(Refused) as refused:
        greeting.check_choice(choice.ljust(90, b"\0"))
    assert greeting.refusal(refused.value.code) == octets("f7")


def test_a_choice_may_name_what_it_chooses_three_times() -> None:
    """Spread's own daemon reads past the end of the block then."""
    greeting.check_choice(b"NULL".ljust(30, b"\0") * 3)


def test_a_code_for_every_refusal() -> None:
    codes = (greeting.QUOTA, greeting.ILLEGAL_NAME, greeting.NAME_TAKEN, greeting.BAD_VERSION)
    assert b"".join(map(greeting.refusal, codes)) == octets("fd fb fa f9")


# From the client ------------------------------------------------------------------------------------------

A_JOIN = octets(
    "80 00 01 80 23 61 6c 69 63 65 23 64 31 00 00 00 | type, sender",
    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
    "00 00 00 00 01 00 00 00 80 00 00 80 00 00 00 00 | one name, hint, no body",
    "67 72 70 31 00 00 00 00 00 00 00 00 00 00 00 00 | grp1",
    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
)
SAFE_MULTICAST = (
    octets("a0 00 00 80") + field(ALICE) + octets("01 00 00 00 80 01 00 80 0c 00 00 00") + field("grp1")
    + b"hello there\n"
)  # fmt: skip
KILL = (
    octets("80 00 04 80") + field(ALICE) + octets("01 00 00 00 80 00 00 80 00 00 00 00")
    + octets("23 61 6c 69 63 65 23 64 31 00 53 e3 a5 9b c4 20")
    + octets("a0 1a 0c 71 fe 7f 00 00 26 40 5b ce 2d 56 00 00")
)  # fmt: skip
FROM_JAVA = (
    octets("00 00 00 10") + field("#jav#d1") + octets("00 00 00 01 00 01 02 00 00 00 00 0c") + field("jgrp")
    + b"hi from java"
)  # fmt: skip
TO_OTHERS_FROM_JAVA = (
    octets("90 00 00 80") + field("#jav#d1") + octets("01 00 00 00 00 01 02 00 0c 00 00 00") + field("jgrp")
    + b"hi from java"
)  # fmt: skip


def read(name: str, data: bytes) -> list[tuple[int, bytes]]:
    found, used, needed = FromSpread(name).split(data, 5)
    assert (used, needed) == (len(data), 0)
    return [(kind, bytes(frame)) for kind, frame in found]


def requests(name: str, data: bytes) -> list[frames.FromClient]:
    return [frames.decode_from_client(frame) for _, frame in read(name, data)]


def test_a_join() -> None:
    assert requests(ALICE, A_JOIN) == [frames.Join("grp1")]


def test_a_disconnect_with_what_happened_to_be_in_memory_behind_its_name() -> None:
    assert requests(ALICE, KILL) == [frames.Disconnect()]


def test_a_safe_multicast() -> None:
    ((kind, data),) = read(ALICE, SAFE_MULTICAST)
    assert kind == frames.FrameKind.BUNDLE
    (message,) = bundle.decode(data)
    assert (message.sender, message.groups, message.service) == (ALICE, ("grp1",), Service.SAFE)
    assert (message.payload, message.tag, message.sent_us) == (b"hello there\n", 1, 5)


def test_a_message_of_a_big_endian_client_as_it_comes_out() -> None:
    ((_, data),) = read("#jav#d1", FROM_JAVA)
    assert bundle.decode(data)[0].tag == 258
    assert ToSpread(DAEMONS).translate(data) == (TO_OTHERS_FROM_JAVA, False)


def test_a_message_of_a_little_endian_client_comes_out_as_it_came() -> None:
    ((_, data),) = read(ALICE, SAFE_MULTICAST)
    assert ToSpread(DAEMONS).translate(data) == (SAFE_MULTICAST, False)


def test_a_hint_without_a_marker_in_a_little_endian_frame_is_copied() -> None:
    """Some clients write so: nobody can tell what they mean, and nobody need."""
    odd = SAFE_MULTICAST[:40] + octets("00 02 01 00") + SAFE_MULTICAST[44:]
    ((_, data),) = read(ALICE, odd)
    assert ToSpread(DAEMONS).translate(data) == (odd, False)


def test_bits_that_we_do_not_know_are_delivered() -> None:
    """Libraries on top of the toolkit's rely on it."""
    flushed = octets("a0 40 00 f1") + SAFE_MULTICAST[4:]
    ((_, data),) = read(ALICE, flushed)
    assert ToSpread(DAEMONS).translate(data) == (flushed, False)


def test_consecutive_messages_become_one_bundle() -> None:
    other = SAFE_MULTICAST.replace(b"grp1", b"grp2").replace(b"there", b"again")
    found = read(ALICE, 3 * SAFE_MULTICAST + A_JOIN + 2 * other + SAFE_MULTICAST)
    assert [kind for kind, _ in found] == [1, 2, 1, 1]
    counts = [len(bundle.decode(data)) for kind, data in found if kind == 1]
    assert counts == [3, 2, 1]
    assert ToSpread(DAEMONS).translate(found[0][1])[0] == 3 * SAFE_MULTICAST


@pytest.mark.parametrize("size", range(len(SAFE_MULTICAST)))
def test_what_is_not_whole_waits(size: int) -> None:
    data = A_JOIN + SAFE_MULTICAST[:size]
    found, used, needed = FromSpread(ALICE).split(data, 0)
    assert (len(found), used) == (1, len(A_JOIN))
    assert needed == (len(SAFE_MULTICAST) if size >= layout.HEADER_BYTES else 0)


def changed(data: bytes, at: int, new: str) -> bytes:
    replacement = octets(new)
    return data[:at] + replacement + data[at + len(replacement) :]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (changed(SAFE_MULTICAST, 0, "b0 00 00 80"), "not exactly one action"),
        (changed(SAFE_MULTICAST, 0, "80 00 00 80"), "not exactly one action"),
        (changed(A_JOIN, 0, "a0 00 01 80"), "not exactly one action"),
        (changed(SAFE_MULTICAST, 0, "a0 10 00 80"), "what only daemons say"),
        (changed(SAFE_MULTICAST, 0, "a0 00 40 80"), "what only daemons say"),
        (changed(SAFE_MULTICAST, 5, "62"), "sent under another name"),
        (changed(SAFE_MULTICAST, 36, "65 00 00 00"), "impossible number of names"),
        (changed(SAFE_MULTICAST, 36, "ff ff ff ff"), "impossible number of names"),
        (changed(SAFE_MULTICAST, 44, "ff ff ff ff"), "impossible size"),
        (changed(SAFE_MULTICAST, 44, "31 32 02 00"), "impossible size"),  # one byte more than 143,920
        (changed(SAFE_MULTICAST, 40, "81 01 00 80"), "impossible hint"),
        (changed(A_JOIN, 48, "61" * 32), "a name does not end"),
        (changed(A_JOIN, 48, "61 20 62 00"), "has the character"),
        (changed(A_JOIN, 48, "e9 00"), "not ASCII"),
        (changed(SAFE_MULTICAST, 4, "61" * 32), "a name does not end"),
    ],
)
def test_what_no_client_may_send_has_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        FromSpread(ALICE).split(data, 0)


def test_who_joins_more_groups_than_a_session_may_be_in_is_told_by_its_end() -> None:
    """Spread has no word for a refusal, and silence would be a join that never comes."""
    session = FromSpread(ALICE)

    def request(group: str, kind: str = "80 00 01 80") -> bytes:
        return changed(changed(A_JOIN, 0, kind), 48, group.encode().hex() + "00")

    for number in range(limits.GROUPS_PER_SESSION_MAX):
        assert session.split(request(f"g{number}"), 0)[0]
    assert session.split(request("g0"), 0)[0]  # it is in there already
    with pytest.raises(BadFrame, match="joins 16,384 groups at most"):
        session.split(request("one_more"), 0)
    session.split(request("g0", "80 00 02 80"), 0)
    assert session.split(request("one_more"), 0)[0]


def test_what_spread_ignores_is_ignored() -> None:
    nobody = changed(SAFE_MULTICAST[:48] + SAFE_MULTICAST[80:], 36, "00 00 00 00")
    assert read(ALICE, nobody) == []
    assert read(ALICE, changed(SAFE_MULTICAST, 48, "61 20 62 00")) == []  # no group has such a name
    assert read(ALICE, changed(SAFE_MULTICAST, 48, "e9 00")) == []  # nor one that is not ASCII
    leave = changed(A_JOIN, 0, "80 00 02 80")
    assert requests(ALICE, leave) == [frames.Leave("grp1")]
    assert requests(ALICE, changed(leave, 48, ALICE.encode().hex() + "00")) == []


# To the client --------------------------------------------------------------------------------------------


def test_a_view_after_a_join() -> None:
    view = View("grp1", VIEW_ID, ("#bob#d1", ALICE), (ALICE,), Cause.JOIN, ("#bob#d1",))
    assert Views(DAEMONS).view(view) == (
        octets("80 11 00 80") + field("grp1") + octets("02 00 00 00 80 00 00 80 38 00 00 00")
        + field(ALICE) + field("#bob#d1")
        + pack_id(VIEW_ID) + octets("01 00 00 00 00 00 00 00 01 00 00 00") + field("#bob#d1")
    )  # fmt: skip


@pytest.mark.parametrize(("cause", "kind"), [(Cause.LEAVE, "80 12 00 80"), (Cause.DISCONNECT, "80 14 00 80")])
def test_a_view_after_somebody_has_gone(cause: Cause, kind: str) -> None:
    view = View("grp1", VIEW_ID, (ALICE,), (ALICE,), cause, ("#bob#d1",))
    assert Views(DAEMONS).view(view) == (
        octets(kind) + field("grp1") + octets("01 00 00 00 80 00 00 80 38 00 00 00") + field(ALICE)
        + pack_id(VIEW_ID) + octets("01 00 00 00 00 00 00 00 01 00 00 00") + field("#bob#d1")
    )  # fmt: skip


def test_a_view_after_several_are_gone_at_once_is_a_networks() -> None:
    """Spread's word for a disconnect has room for one name."""
    view = View("grp1", VIEW_ID, (ALICE,), (ALICE,), Cause.DISCONNECT, ("#bob#d1", "#cyd#d1"))
    assert Views(DAEMONS).view(view) == (
        octets("80 18 00 80") + field("grp1") + octets("01 00 00 00 80 00 00 80 38 00 00 00") + field(ALICE)
        + pack_id(VIEW_ID) + octets("01 00 00 00 00 00 00 00 01 00 00 00") + field(ALICE)
    )  # fmt: skip


def test_ones_own_leave() -> None:
    assert Views(DAEMONS).left(Left("grp1", VIEW_ID)) == (
        octets("80 02 00 80") + field("grp1") + octets("00 00 00 00 80 00 00 80 00 00 00 00")
    )


def test_a_signal_names_the_view_that_ends() -> None:
    assert Views(DAEMONS).signal(TransitionalSignal("g", VIEW_ID)) == (
        octets("80 20 00 80") + field("g") + octets("00 00 00 00 80 00 00 80 0c 00 00 00") + pack_id(VIEW_ID)
    )


LEFT_OF_A_CUT = ("#c1#d1", "#c1b#d1", "#c2#d2")


def test_a_view_after_a_daemon_was_lost() -> None:
    view = View("g", VIEW_ID, LEFT_OF_A_CUT, LEFT_OF_A_CUT, Cause.NETWORK, ("#c3#d3",))
    names = b"".join(map(field, LEFT_OF_A_CUT))
    assert Views(DAEMONS).view(view) == (
        octets("80 18 00 80") + field("g") + octets("03 00 00 00 80 00 00 80 78 00 00 00") + names
        + pack_id(VIEW_ID) + octets("01 00 00 00 00 00 00 00 03 00 00 00") + names
    )  # fmt: skip


@pytest.mark.parametrize(("own", "offset"), [(LEFT_OF_A_CUT, "24 00 00 00"), (("#c3#d3",), "00 00 00 00")])
def test_a_view_after_a_merge_says_who_came_with_whom(own: tuple[str, ...], offset: str) -> None:
    members = (*LEFT_OF_A_CUT, "#c3#d3")
    newcomers = tuple(name for name in members if name not in own)
    view = View("g", VIEW_ID, members, own, Cause.MERGE, newcomers, (("#c3#d3",), LEFT_OF_A_CUT))
    assert Views(DAEMONS).view(view) == (
        octets("80 18 00 80") + field("g") + octets("04 00 00 00 80 00 00 80 9c 00 00 00")
        + b"".join(map(field, members))
        + pack_id(VIEW_ID) + octets("02 00 00 00", offset)
        + octets("01 00 00 00") + field("#c3#d3")
        + octets("03 00 00 00") + b"".join(map(field, LEFT_OF_A_CUT))
    )  # fmt: skip


def test_members_stand_in_the_order_of_daemons_and_then_of_names() -> None:
    members = ("#z#d2", "#b#d10", "#a#d10", "#y#d1")
    view = View("g", VIEW_ID, members, members[:3], Cause.JOIN, members[3:])
    data = Views(("d1", "d10", "d2")).view(view)
    assert data[48 : 48 + 128] == b"".join(map(field, ("#y#d1", "#a#d10", "#b#d10", "#z#d2")))


def test_a_join_while_others_are_being_lost_is_a_view_of_the_network() -> None:
    """Those who are being lost are alone, and so is the newcomer, at the end."""
    view_id = ViewId(7, 8, 9, 1)
    members = ("#a#d1", "#b#d2", "#x#d3", "#y#d3", "#n#d1")
    view = View("g", view_id, members, ("#a#d1", "#b#d2"), Cause.JOIN, ("#n#d1",))
    data = Views(DAEMONS).view(view)
    assert data[:4] == octets("80 18 00 80")
    sets = (("#a#d1", "#b#d2"), ("#x#d3",), ("#y#d3",), ("#n#d1",))
    body = b"".join(len(names).to_bytes(4, "little") + b"".join(map(field, names)) for names in sets)
    assert data[48 + 32 * 5 :] == pack_id(view_id) + octets("04 00 00 00 00 00 00 00") + body
    first = View("g", view_id, members, (), Cause.JOIN, ("#n#d1",))
    own = Views(DAEMONS).view(first)[48 + 32 * 5 :]
    assert own[16:20] == (4 * 36).to_bytes(4, "little")  # its own set comes after those of four others


def test_identifiers_of_views_are_alike_only_if_the_views_are() -> None:
    ids = [ViewId(epoch, branch, lts, daemon) for epoch in range(4) for branch in range(3) for lts in range(5)
           for daemon in range(3)]  # fmt: skip
    packed = {pack_id(view_id) for view_id in ids}
    assert len(packed) == len(ids)
    assert all(int.from_bytes(one[8:], "little", signed=True) > 0 for one in packed)


def test_our_own_messages() -> None:
    names = bundle.names_area("#ann#d2", ["news", ALICE])
    data = b"".join(
        bundle.encode(names, 2, Service.CAUSAL, [b"one", b""], flags=bundle.Flag.SELF_DISCARD, tag=-7)
    )
    start = octets("c8 00 00 80") + field("#ann#d2") + octets("02 00 00 00 80 f9 ff 80")
    groups = field("news") + field(ALICE)
    assert ToSpread(DAEMONS).translate(data) == (
        start + octets("03 00 00 00") + groups + b"one" + start + octets("00 00 00 00") + groups,
        False,
    )


def test_the_stamp_of_a_batch_is_no_message() -> None:
    names = bundle.names_area("#spark#d2", ["news"])
    bodies = [b"q/1/0/1-1/0", b"row"]
    data = b"".join(bundle.encode(names, 1, Service.AGREED, bodies, flags=bundle.Flag.BATCH))
    translated, _ = ToSpread(DAEMONS).translate(data)
    assert translated.endswith(octets("03 00 00 00") + field("news") + b"row")
    assert len(translated) == 48 + 32 + 3


@pytest.mark.parametrize(
    "value",
    [frames.Accepted(3), frames.Problem("already-joined", "twice"), frames.Goodbye("stopping", "it ends")],
)
def test_what_spread_has_no_word_for_is_left_out(value: frames.FromDaemon) -> None:
    assert ToSpread(DAEMONS).translate(frames.encode_control(value)) == (b"", False)


def test_numbers_of_messages_in_both_orders() -> None:
    for number in (0, 1, 258, -1, -32_768, 32_767):
        for is_little in (True, False):
            assert layout.parse_hint(layout.pack_hint(number, is_little)) == (number, is_little)


def test_a_bundle_whose_header_is_known_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(bundle.encode(bundle.names_area("#ann#d2", ["news"]), 1, Service.AGREED, [b"one"]))
    expected = ToSpread(DAEMONS).translate(data)
    to_spread = ToSpread(DAEMONS)
    to_spread.header = bundle.parse(data)
    monkeypatch.setattr(bundle, "parse", lambda frame: pytest.fail("it was parsed again"))
    assert to_spread.translate(data) == expected
