"""Edges in a configuration: to whom they attach, and what is said of those that cannot."""

import pytest
from config_complaints import complaint

from antiphon import config, limits
from antiphon.config import EdgeConfig
from antiphon.errors import ConfigError

TEXT = """\
[[site]]
name = "east"

[[site.daemon]]
name = "east1"
address = "127.0.0.1:4810"
clients = ["unix:/tmp/east1.sock", "tcp:127.0.0.1:4811"]

[[site.daemon]]
name = "east2"
address = "127.0.0.1:4820"

[[edge]]
name = "hall"
clients = ["tcp:127.0.0.1:4840"]
attach = ["east1", "tcp:10.0.0.7:4811"]

[[edge]]
name = "attic"
clients = ["unix:/tmp/attic.sock"]
attach = ["hall", "east1"]
"""


def test_edges_attach_to_daemons_edges_and_addresses_in_their_order() -> None:
    parsed = config.parse(TEXT)
    hall, attic = parsed.edges
    assert hall == EdgeConfig("hall", ("tcp:127.0.0.1:4840",), ("east1", "tcp:10.0.0.7:4811"))
    assert parsed.edge("attic") == attic
    assert parsed.edge("east1") is None
    assert parsed.attachments_of(hall) == ("unix:/tmp/east1.sock", "tcp:10.0.0.7:4811")
    assert parsed.attachments_of(attic) == ("tcp:127.0.0.1:4840", "unix:/tmp/east1.sock")


def test_daemons_work_together_whatever_edges_they_know() -> None:
    without = TEXT[: TEXT.index("[[edge]]")]
    assert config.parse(TEXT).digest == config.parse(without).digest


def test_edges_are_written_and_read_again() -> None:
    parsed = config.parse(TEXT)
    assert config.parse(config.as_toml(parsed)) == parsed


def test_an_unknown_name_is_answered_with_edges_among_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="known: east1, east2, hall, attic"):
        config.parse(TEXT).daemon_number("cellar")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"east1", "tcp:10',
            '"east9", "tcp:10',
            "line 16, key edge[0].attach[0]: no daemon or edge is called 'east9'; "
            "known: east1, east2, hall, attic",
        ),
        (
            '"east1", "tcp:10',
            '"hall", "tcp:10',
            "line 16, key edge[0].attach[0]: an edge cannot attach to itself",
        ),
        (
            "tcp:10.0.0.7:4811",
            "tcp:127.0.0.1:4840",
            "line 16, key edge[0].attach[1]: an edge cannot attach to itself",
        ),
        (
            '"east1", "tcp:10.0.0.7:4811"',
            '"east1", "attic"',
            "line 21, key edge[1].attach[0]: edges attach in a circle: hall to attic to hall",
        ),
        (
            '"east1", "tcp:10.0.0.7:4811"',
            '"east1", "unix:/tmp/attic.sock"',
            "line 21, key edge[1].attach[0]: edges attach in a circle: hall to attic to hall",
        ),
        (
            '"east1", "tcp:10',
            '"east2", "tcp:10',
            "line 16, key edge[0].attach[0]: east2 has no `clients`: no place where an edge can attach",
        ),
        (
            'name = "hall"',
            'name = "east1"',
            "line 14, key edge[0].name: a daemon of a site is called 'east1', too",
        ),
        (
            'name = "attic"',
            'name = "hall"',
            "line 19, key edge[1].name: the edge 'hall' appears more than once",
        ),
        (
            'name = "hall"',
            'name = "the hall"',
            "line 14, key edge[0].name: edge name 'the hall' has the character ' '; allowed are the visible "
            "ASCII characters from '$' to '~' (no space, '#', '!' or '\"')",
        ),
        (
            '["tcp:127.0.0.1:4840"]',
            "[]",
            "line 15, key edge[0].clients: expected a place where clients of hall connect",
        ),
        (
            "tcp:127.0.0.1:4840",
            "127.0.0.1:4840",
            "line 15, key edge[0].clients[0]: listener '127.0.0.1:4840' is not unix:PATH, tls:HOST:PORT "
            "or tcp:HOST:PORT",
        ),
        (
            "tcp:10.0.0.7:4811",
            "tcp:10.0.0.7",
            "line 16, key edge[0].attach[1]: listener '10.0.0.7' is not HOST:PORT, "
            "for example 127.0.0.1:4810",
        ),
        (
            "tcp:10.0.0.7:4811",
            "tcp:127.0.0.1:4811",
            "line 16, key edge[0].attach[1]: 'east1' appears more than once",
        ),
        (
            '["hall", "east1"]',
            "[]",
            "line 21, key edge[1].attach: expected at least one daemon, edge or address to attach to",
        ),
        (
            'attach = ["hall", "east1"]',
            "",
            "line 18, key edge[1].attach: expected this key, but it is missing",
        ),
        (
            '[[edge]]\nname = "hall"',
            '[[edge]]\nport = 1\nname = "hall"',
            "line 14, key edge[0].port: unknown key; expected one of: name, clients, attach, organise, "
            "reach, multicast",
        ),
        (
            "[[site]]",
            "[cluster]\nedges_max = -1\n[[site]]",
            "line 2, key cluster.edges_max: expected an integer >= 0",
        ),
    ],
)
def test_a_wrong_text_is_answered_with_one_line(old: str, new: str, message: str) -> None:
    assert complaint(TEXT.replace(old, new, 1)) == f"cluster.toml, {message}"


def test_there_may_be_many_attachments_but_not_any_number() -> None:
    most = limits.EDGE_ATTACHMENTS_MAX
    places = [f"tcp:10.0.0.{number}:4811" for number in range(most + 1)]
    text = TEXT.replace('"east1", "tcp:10.0.0.7:4811"', ", ".join(f'"{place}"' for place in places[:most]))
    assert len(config.parse(text).edges[0].attach) == most
    text = TEXT.replace('"east1", "tcp:10.0.0.7:4811"', ", ".join(f'"{place}"' for place in places))
    assert complaint(text) == (
        f"cluster.toml, line 16, key edge[0].attach[{most}]: expected at most {most} attachments, "
        f"got {most + 1}"
    )
