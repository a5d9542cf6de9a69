"""What a configuration says about TCP between sites, and what is wrong with it."""

import pytest
from config_complaints import complaint

from antiphon import config

TEXT = """\
[[site]]
name = "east"
[[site.daemon]]
name = "east1"
address = "127.0.0.1:4810"
clients = ["unix:/tmp/east1.sock", "tcp:127.0.0.1:4811"]

[[site]]
name = "west"
[[site.daemon]]
name = "west1"
address = "127.0.0.1:4820"
tcp_address = "127.0.0.1:4821"
[[site.daemon]]
name = "west2"
address = "127.0.0.1:4830"

[[site]]
name = "north"
[[site.daemon]]
name = "north1"
address = "127.0.0.1:4840"

[[link]]
sites = ["east", "west"]
protocol = "tcp"

[[link]]
sites = ["north", "west"]
"""


def test_each_pair_of_sites_has_a_protocol() -> None:
    parsed = config.parse(TEXT)
    assert [link.protocol for link in parsed.links] == ["tcp", "hop"]
    assert [parsed.stream_peers_of(daemon) for daemon in range(4)] == [(1, 2), (0,), (0,), ()]
    assert parsed.link_between(0, 2).protocol == "tcp"
    assert parsed.link_between(1, 2).protocol == "hop", "inside a site"


def test_daemons_listen_at_their_address_unless_another_is_given() -> None:
    daemons = [daemon for _, daemon in config.parse(TEXT).daemons()]
    assert [daemon.stream_address for daemon in daemons] == [
        "127.0.0.1:4810", "127.0.0.1:4821", "127.0.0.1:4830", "127.0.0.1:4840",
    ]  # fmt: skip


def test_daemons_must_agree_on_the_protocol() -> None:
    assert config.parse(TEXT).digest != config.parse(TEXT.replace('"tcp"', '"hop"')).digest


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'protocol = "tcp"',
            'protocol = "udp"',
            "cluster.toml, line 26, key link[0].protocol: expected one of: hop, tcp",
        ),
        (
            "127.0.0.1:4821",
            "127.0.0.1",
            "cluster.toml, line 13, key site[1].daemon[0].tcp_address: address '127.0.0.1' is not HOST:PORT, "
            "for example 127.0.0.1:4810",
        ),
        (
            "127.0.0.1:4821",
            "127.0.0.1:4830",
            "cluster.toml, line 14, key site[1].daemon[1].tcp_address: "
            "the TCP address '127.0.0.1:4830' appears more than once",
        ),
        (
            "tcp:127.0.0.1:4811",
            "tcp:127.0.0.1:4810",
            "cluster.toml, line 6, key site[0].daemon[0].clients[1]: "
            "expected another port: other daemons connect to this one; or set tcp_address",
        ),
        (
            'protocol = "tcp"',
            'protocol = "tcp"\nemulate = { delay_ms = 5.0 }',
            'cluster.toml, line 27, key link[0].emulate: expected protocol = "hop": '
            "only its packets can be held back",
        ),
        (
            'tcp_address = "127.0.0.1:4821"',
            "tcp_address = 4821",
            "cluster.toml, line 13, key site[1].daemon[0].tcp_address: expected a string, got an integer",
        ),
    ],
)
def test_a_wrong_text_is_answered_with_one_line(old: str, new: str, message: str) -> None:
    assert complaint(TEXT.replace(old, new)) == message


def test_a_client_place_may_have_the_number_of_a_udp_port_without_tcp_links() -> None:
    config.parse(TEXT.replace('"tcp"', '"hop"').replace("tcp:127.0.0.1:4811", "tcp:127.0.0.1:4810"))
