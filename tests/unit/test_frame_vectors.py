"""Golden bytes of the control frames between clients and daemons; see test_wire_vectors.py."""

from collections.abc import Sequence
from typing import get_args

import pytest
from vectors import octets

from antiphon.service import Service
from antiphon.types import (
    MAJORITY,
    Cause,
    Gap,
    Left,
    Lock,
    LockCause,
    LockChanged,
    SlowReceiver,
    TransitionalSignal,
    View,
    ViewId,
)
from antiphon.wire import frames

VIEW_ID = ViewId(epoch=1, branch=0, lts=55, daemon=2)


def text(word: str) -> str:
    """A short MessagePack text, in hexadecimal."""
    return f"{0xA0 + len(word):02X}" + word.encode().hex()


VIEW_ID_VECTOR = (
    "84" + text("epoch") + "01" + text("branch") + "00" + text("lts") + "37" + text("daemon") + "02"
)


FROM_CLIENT: list[tuple[frames.FromClient, Sequence[str]]] = [
    (
        frames.Connect(
            version=3,
            name="ann",
            priority=9,
            views=False,
            accepts=True,
            slow="disconnect",
            warnings=True,
            refusals=True,
        ),
        [
            "00000063 02    # length, kind: control",
            "89             # nine entries",
            text("type") + text("connect"),
            text("version") + "03",
            text("name") + text("ann"),
            text("priority") + "09",
            text("views") + "C2    # false",
            text("accepts") + "C3    # true",
            text("slow") + text("disconnect"),
            text("warnings") + "C3    # true",
            text("refusals") + "C3    # true",
        ],
    ),
    (frames.Join("news"), ["0000001B 02", "82", text("type") + text("join"), text("group") + text("news")]),
    (frames.Leave("news"), ["0000001C 02", "82", text("type") + text("leave"), text("group") + text("news")]),
    (
        frames.Join("news", MAJORITY),
        [
            "00000024 02",
            "83",
            text("type") + text("join"),
            text("group") + text("news"),
            text("minimum") + "FF    # -1",
        ],
    ),
    (
        frames.Join("news", delivery=Service.FIFO),
        [
            "00000025 02",
            "83",
            text("type") + text("join"),
            text("group") + text("news"),
            text("delivery") + "02    # fifo",
        ],
    ),
    (
        frames.AskLock("news", "a", False),
        [
            "00000028 02",
            "84",
            text("type") + text("lock"),
            text("group") + text("news"),
            text("name") + text("a"),
            text("wait") + "C2",
        ],
    ),
    (
        frames.Credential("sesame-sesame-sesame"),
        [
            "00000031 02",
            "82",
            text("type") + text("credential"),
            text("token") + text("sesame-sesame-sesame"),
        ],
    ),
    (
        frames.ReloadAccess(),
        ["00000019 02", "81", text("type") + text("reload-access")],
    ),
    (
        frames.Unlock("news", "a"),
        [
            "00000024 02",
            "83",
            text("type") + text("unlock"),
            text("group") + text("news"),
            text("name") + text("a"),
        ],
    ),
    (frames.Disconnect(), ["00000016 02", "81", text("type") + text("disconnect")]),
    (frames.AskStatus(), ["00000016 02", "81", text("type") + text("ask-status")]),
    (frames.AskTime(7), ["0000001C 02", "82", text("type") + text("ask-time"), text("number") + "07"]),
]

FROM_DAEMON: list[tuple[frames.FromDaemon, Sequence[str]]] = [
    (
        frames.Welcome(3, 3, "#ann#east1", "east1", 2, 16_777_216),
        [
            "00000068 02",
            "87             # seven entries",
            text("type") + text("welcome"),
            text("version") + "03",
            text("session") + "03",
            text("name") + text("#ann#east1"),
            text("daemon") + text("east1"),
            text("daemon_number") + "02",
            text("message_max_bytes") + "CE01000000    # 16 MiB",
        ],
    ),
    (
        frames.Refuse("name-taken", "in use"),
        [
            "00000030 02",
            "83",
            text("type") + text("refuse"),
            text("code") + text("name-taken"),
            text("reason") + text("in use"),
        ],
    ),
    (
        frames.ViewFrame(View("news", VIEW_ID, ("#a#d", "#b#d"), ("#a#d",), Cause.JOIN, ("#b#d",))),
        [
            "00000080 02",
            "82",
            text("type") + text("view"),
            text("view") + "86    # six entries",
            text("group") + text("news"),
            text("id") + VIEW_ID_VECTOR,
            text("members") + "92" + text("#a#d") + text("#b#d") + "    # array of two",
            text("transitional") + "91" + text("#a#d"),
            text("cause") + text("join"),
            text("changed") + "91" + text("#b#d"),
        ],
    ),
    (
        frames.SignalFrame(TransitionalSignal("news", VIEW_ID)),
        [
            "00000045 02",
            "82",
            text("type") + text("signal"),
            text("signal") + "82",
            text("group") + text("news"),
            text("id") + VIEW_ID_VECTOR,
        ],
    ),
    (
        frames.LeftFrame(Left("news", VIEW_ID)),
        [
            "00000041 02",
            "82",
            text("type") + text("left"),
            text("left") + "82",
            text("group") + text("news"),
            text("id") + VIEW_ID_VECTOR,
        ],
    ),
    (
        frames.LockFrame(
            LockChanged("news", VIEW_ID, Lock("a", "#a#d", 7, ("#b#d",)), LockCause.RELEASED, "#c#d")
        ),
        [
            "00000095 02",
            "82",
            text("type") + text("lock-changed"),
            text("change") + "85",
            text("group") + text("news"),
            text("id") + VIEW_ID_VECTOR,
            text("lock") + "84",
            text("name") + text("a"),
            text("holder") + text("#a#d"),
            text("fence") + "07",
            text("waiting") + "91" + text("#b#d"),
            text("cause") + text("released"),
            text("session") + text("#c#d"),
        ],
    ),
    (
        frames.GapFrame(Gap("news", VIEW_ID, 56, 90, "late")),
        [
            "00000069 02",
            "82",
            text("type") + text("gap-told"),
            text("gap") + "85",
            text("group") + text("news"),
            text("after") + VIEW_ID_VECTOR,
            text("after_lts") + "38",
            text("until_lts") + "5A",
            text("reason") + text("late"),
        ],
    ),
    (
        frames.Unsure(7, 2),
        [
            "00000023 02",
            "83",
            text("type") + text("unsure"),
            text("sequence") + "07",
            text("count") + "02",
        ],
    ),
    (
        frames.NotSent("news", 7, 2, reason="no"),
        [
            "0000003A 02",
            "85",
            text("type") + text("not-sent"),
            text("group") + text("news"),
            text("sequence") + "07",
            text("count") + "02",
            text("reason") + text("no"),
        ],
    ),
    (
        frames.Denied("join", "news", "not-allowed", "no"),
        [
            "00000042 02",
            "85",
            text("type") + text("denied"),
            text("verb") + text("join"),
            text("group") + text("news"),
            text("code") + text("not-allowed"),
            text("reason") + text("no"),
        ],
    ),
    (
        frames.RightsChanged(),
        ["0000001A 02", "81", text("type") + text("rights-changed")],
    ),
    (
        frames.Reloaded(True, "two users"),
        [
            "0000002F 02",
            "83",
            text("type") + text("reloaded"),
            text("is_changed") + "C3    # true",
            text("told") + text("two users"),
        ],
    ),
    (
        frames.NotSent("news", 7, 2),
        [
            "00000030 02",
            "84",
            text("type") + text("not-sent"),
            text("group") + text("news"),
            text("sequence") + "07",
            text("count") + "02",
        ],
    ),
    (
        frames.Accepted(300),
        ["00000020 02", "82", text("type") + text("accepted"), text("sequence") + "CD012C    # 300"],
    ),
    (
        frames.Status(b"{}"),
        ["0000001B 02", "82", text("type") + text("status"), text("json") + "C402 7B7D    # two bytes"],
    ),
    (
        frames.Time(frames.TimeBasis.REFERENCE, "east1", 0x00060A24181E4000, 250, 7),
        [
            "0000004F 02",
            "86",
            text("type") + text("time"),
            text("basis") + text("reference"),
            text("root") + text("east1"),
            text("time_us") + "CF00060A24181E4000",
            text("error_us") + "CCFA    # 250",
            text("number") + "07",
        ],
    ),
    (
        frames.SlowFrame(SlowReceiver(9, 8, 16, "disconnect", 3, is_over=True)),
        [
            "0000006A 02",
            "82",
            text("type") + text("slow"),
            text("slow") + "86    # a map of six entries",
            text("waiting_bytes") + "09",
            text("soft_bytes") + "08",
            text("hard_bytes") + "10",
            text("policy") + text("disconnect"),
            text("dropped_messages") + "03",
            text("is_over") + "C3    # true",
        ],
    ),
    (
        frames.Problem("not-a-member", "of news"),
        [
            "00000034 02",
            "83",
            text("type") + text("problem"),
            text("code") + text("not-a-member"),
            text("reason") + text("of news"),
        ],
    ),
    (
        frames.Goodbye("slow-receiver", "too slow"),
        [
            "00000036 02",
            "83",
            text("type") + text("goodbye"),
            text("code") + text("slow-receiver"),
            text("reason") + text("too slow"),
        ],
    ),
]


@pytest.mark.parametrize(("value", "lines"), FROM_CLIENT, ids=lambda part: type(part).__name__)
def test_control_frames_from_clients(value: frames.FromClient, lines: Sequence[str]) -> None:
    vector = octets(*lines)
    assert frames.encode_control(value) == vector
    assert frames.decode_from_client(vector) == value


@pytest.mark.parametrize(("value", "lines"), FROM_DAEMON, ids=lambda part: type(part).__name__)
def test_control_frames_from_daemons(value: frames.FromDaemon, lines: Sequence[str]) -> None:
    vector = octets(*lines)
    assert frames.encode_control(value) == vector
    assert frames.decode_from_daemon(vector) == value


def test_causes_of_views_have_their_words() -> None:
    assert [cause.value for cause in Cause] == ["join", "leave", "disconnect", "network", "merge", "quorum"]


def test_every_control_frame_has_a_vector() -> None:
    assert {type(value) for value, _ in FROM_CLIENT} == set(get_args(frames.FromClient))
    assert {type(value) for value, _ in FROM_DAEMON} == set(get_args(frames.FromDaemon))
