"""Golden bytes of the control frames between an edge and its attachment; see test_wire_vectors.py."""

from collections.abc import Sequence
from typing import get_args

import pytest
from test_frame_vectors import VIEW_ID, VIEW_ID_VECTOR, text
from vectors import octets

from antiphon.errors import BadFrame
from antiphon.types import Cause, View
from antiphon.wire import edges, frames
from antiphon.wire.edges import Held, Position

AT = Position(1, 0, 55)
AT_VECTOR = "94 01 00 37" + "A0"
VIEW = View("news", VIEW_ID, (), (), Cause.LEAVE, ())
VIEW_VECTOR = (
    "86" + text("group") + text("news") + text("id") + VIEW_ID_VECTOR + text("members") + "90"
    + text("transitional") + "90" + text("cause") + text("leave") + text("changed") + "90"
)  # fmt: skip

FROM_EDGE: list[tuple[edges.FromEdge, Sequence[str]]] = [
    (
        edges.Attach(5, "e1", 7, is_standby=True, places=("tcp:a:1",)),
        [
            "86",
            text("type") + text("attach"),
            text("version") + "05",
            text("name") + text("e1"),
            text("incarnation") + "07",
            text("is_standby") + "C3",
            text("places") + "91" + text("tcp:a:1"),
        ],
    ),
    (edges.Probe(3), ["82", text("type") + text("probe"), text("number") + "03"]),
    (
        edges.Report(4, 60, AT, 1),
        [
            "85",
            text("type") + text("report"),
            text("behind") + "04",
            text("room") + "3C",
            text("needs") + AT_VECTOR,
            text("gaps") + "01",
        ],
    ),
    (
        edges.Listen("news", Held((1, 0, 55, 2), True)),
        [
            "83",
            text("type") + text("listen"),
            text("group") + text("news"),
            text("held") + "92 94 01 00 37 02 C3",
        ],
    ),
    (edges.Unlisten("news"), ["82", text("type") + text("unlisten"), text("group") + text("news")]),
    (edges.Go(AT), ["82", text("type") + text("go"), text("after") + AT_VECTOR]),
    (
        edges.Receivers({"news": 3}),
        ["82", text("type") + text("receivers"), text("counts") + "81" + text("news") + "03"],
    ),
    (edges.Beat(), ["81", text("type") + text("beat")]),
    (
        edges.Sponsor(4, "ann", "e1", 2, True, True),
        [
            "87",
            text("type") + text("sponsor"),
            text("client") + "04",
            text("name") + text("ann"),
            text("edge") + text("e1"),
            text("priority") + "02",
            text("accepts") + "C3",
            text("refusals") + "C3",
        ],
    ),
    (edges.Unsponsor(9), ["82", text("type") + text("unsponsor"), text("session") + "09"]),
    (
        edges.Heard(0x0102030405060708, 3),
        ["83", text("type") + text("heard"), text("stream") + "CF 0102030405060708", text("serial") + "03"],
    ),
    (edges.Lack(((7, 2), (11, 1))), ["82", text("type") + text("lack"), text("ranges") + "92 920702 920B01"]),
]

TO_EDGE: list[tuple[frames.ToEdge, Sequence[str]]] = [
    (
        edges.Attached(5, "e1", "d1", ("e1",), 1_024, 500),
        [
            "87",
            text("type") + text("attached"),
            text("version") + "05",
            text("name") + text("e1"),
            text("daemon") + text("d1"),
            text("path") + "91" + text("e1"),
            text("message_max_bytes") + "CD 0400",
            text("beat_us") + "CD 01F4",
        ],
    ),
    (
        edges.Probed(3, "e1", 60, 4, ("e1",), 8, (edges.Neighbour("e2", ("tcp:a:1",), 5),)),
        [
            "88",
            text("type") + text("probed"),
            text("number") + "03",
            text("name") + text("e1"),
            text("room") + "3C",
            text("children") + "04",
            text("path") + "91" + text("e1"),
            text("few") + "08",
            text("coordinators") + "91 93" + text("e2") + "91" + text("tcp:a:1") + "05",
        ],
    ),
    (edges.Part(1, 2), ["83", text("type") + text("part"), text("view") + "01", text("branch") + "02"]),
    (
        edges.Base(VIEW, Position(1, 0, 55, "news")),
        [
            "83",
            text("type") + text("base"),
            text("view") + VIEW_VECTOR,
            text("position") + "94 01 00 37" + text("news"),
        ],
    ),
    (
        edges.Gap("news", AT, AT, "late"),
        [
            "85",
            text("type") + text("gap"),
            text("group") + text("news"),
            text("after") + AT_VECTOR,
            text("until") + AT_VECTOR,
            text("reason") + text("late"),
        ],
    ),
    (edges.Reached(AT), ["82", text("type") + text("reached"), text("position") + AT_VECTOR]),
    (
        edges.Sponsored(4, 9, 2, 7, known_as=3, before=5),
        [
            "87",
            text("type") + text("sponsored"),
            text("client") + "04",
            text("session") + "09",
            text("daemon") + "02",
            text("incarnation") + "07",
            text("known_as") + "03",
            text("before") + "05",
        ],
    ),
    (edges.Beat(), ["81", text("type") + text("beat")]),
    (
        edges.Cast("239.1.2.3:5000", 9, bytes(32)),
        [
            "84",
            text("type") + text("cast"),
            text("place") + text("239.1.2.3:5000"),
            text("stream") + "09",
            text("key") + "C4 20" + "00" * 32,
        ],
    ),
    (
        edges.OnCast(7, 500),
        ["83", text("type") + text("on-cast"), text("first") + "07", text("distance_us") + "CD 01F4"],
    ),
    (edges.OffCast(9), ["82", text("type") + text("off-cast"), text("until") + "09"]),
    (edges.Parting("e1"), ["82", text("type") + text("parting"), text("edge") + text("e1")]),
    (
        edges.CastPiece(8, b"tea"),
        ["83", text("type") + text("cast-piece"), text("number") + "08", text("data") + "C403746561"],
    ),
    (edges.Anew(), ["81", text("type") + text("anew")]),
]


def framed(lines: Sequence[str]) -> bytes:
    """The vector of a whole control frame with this body."""
    body = octets(*lines)
    return frames.HEAD.pack(frames.HEAD_BYTES + len(body), frames.FrameKind.CONTROL) + body


@pytest.mark.parametrize(("value", "lines"), FROM_EDGE, ids=lambda part: type(part).__name__)
def test_control_frames_from_edges(value: edges.FromEdge, lines: Sequence[str]) -> None:
    assert frames.encode_control(value) == framed(lines)
    assert frames.decode_from_client(framed(lines)) == value


@pytest.mark.parametrize(("value", "lines"), TO_EDGE, ids=lambda part: type(part).__name__)
def test_control_frames_to_edges(value: frames.ToEdge, lines: Sequence[str]) -> None:
    assert frames.encode_control(value) == framed(lines)
    assert frames.decode_to_edge(framed(lines)) == value


def test_what_an_attachment_says_is_not_for_clients() -> None:
    for value in (edges.Reached(AT), edges.Attached(5, "d1", "d1", (), 1, 1)):
        with pytest.raises(BadFrame):
            frames.decode_from_daemon(frames.encode_control(value))


def test_every_frame_has_a_vector() -> None:
    assert {type(value) for value, _ in FROM_EDGE} == set(get_args(edges.FromEdge))
    assert {type(value) for value, _ in TO_EDGE} == set(get_args(edges.OnlyToEdge))
