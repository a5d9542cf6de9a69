"""The configuration: good texts become values, wrong ones one sentence with the place and the expectation."""

import re
import textwrap

import pytest
from config_complaints import complaint

from antiphon import config, limits
from antiphon.cli import config as cli_config
from antiphon.config import Config, DaemonConfig, Emulation, LinkConfig, Settings, SiteConfig
from antiphon.errors import ConfigError

GOOD = """\
[cluster]
name = "demo"
delta_ms = 2.5

[[site]]
name = "east"

[[site.daemon]]
name = "east1"
address = "127.0.0.1:4810"
clients = ["unix:/tmp/east1.sock", "tcp:[::1]:4811"]

[[site]]
name = "west"

[[site.daemon]]
name = "west1"
address = "127.0.0.1:4820"

[[link]]
sites = ["east", "west"]
cost = 30
emulate = { delay_ms = 40, loss = 0.01 }
"""


def line_of(text: str, piece: str) -> int:
    """The line on which `piece` first stands."""
    return text[: text.index(piece)].count("\n") + 1


def chain(count: int) -> tuple[SiteConfig, ...]:
    """Sites s0, s1, ... with one daemon each."""
    return tuple(
        SiteConfig(f"s{number}", (DaemonConfig(f"d{number}", f"127.0.0.1:{5000 + number}"),))
        for number in range(count)
    )


# Good texts -----------------------------------------------------------------------------------------------


def test_a_good_text_becomes_values() -> None:
    parsed = config.parse(GOOD)
    assert parsed.settings == Settings(name="demo", delta_ms=2.5)
    assert parsed.sites == (
        SiteConfig(
            "east",
            (DaemonConfig("east1", "127.0.0.1:4810", ("unix:/tmp/east1.sock", "tcp:[::1]:4811")),),
        ),
        SiteConfig("west", (DaemonConfig("west1", "127.0.0.1:4820"),)),
    )
    assert parsed.links == (LinkConfig(("east", "west"), 30, emulate=config.Emulation(40, loss=0.01)),)


def test_the_example_in_the_docstring_is_good() -> None:
    assert config.__doc__
    indented = [line for line in config.__doc__.splitlines() if line.startswith("    ") or not line]
    assert config.parse(textwrap.dedent("\n".join(indented))).settings.name == "demo"


def test_sites_and_daemons_are_numbered_by_their_place() -> None:
    parsed = config.parse(GOOD)
    assert [parsed.site_number(name) for name in ("east", "west")] == [0, 1]
    assert [parsed.daemon_number(name) for name in ("east1", "west1")] == [0, 1]
    assert [(site, daemon.name) for site, daemon in parsed.daemons()] == [(0, "east1"), (1, "west1")]


def test_an_unknown_daemon_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no daemon is called 'north1'; known: east1, west1"):
        config.parse(GOOD).daemon_number("north1")


def test_without_links_every_pair_of_sites_is_joined() -> None:
    links = config.build(chain(4)).links
    assert [link.sites for link in links] == [
        ("s0", "s1"), ("s0", "s2"), ("s0", "s3"), ("s1", "s2"), ("s1", "s3"), ("s2", "s3"),
    ]  # fmt: skip
    assert {link.cost for link in links} == {1.0}


def test_a_single_site_needs_no_link() -> None:
    assert config.build(chain(1)).links == ()


def test_the_largest_cluster() -> None:
    assert len(config.build(chain(limits.SITES_MAX)).sites) == limits.SITES_MAX


# The digest -----------------------------------------------------------------------------------------------


def test_the_digest_is_the_same_for_the_same_configuration() -> None:
    assert config.parse(GOOD).digest == config.parse(f"# a remark\n{GOOD}").digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "demo"', 'name = "other"'),
        ('"east"', '"oost"'),
        ('name = "west1"', 'name = "west2"'),
        (":4820", ":4821"),
        ("cost = 30", "cost = 31"),
        ("loss = 0.01", "loss = 0.02"),
    ],
)
def test_the_digest_differs_when_clusters_sites_or_links_differ(old: str, new: str) -> None:
    assert old in GOOD
    assert config.parse(GOOD.replace(old, new)).digest != config.parse(GOOD).digest


def test_the_digest_fits_its_field_in_the_packet() -> None:
    assert 0 <= config.parse(GOOD).digest < 1 << 32


def test_local_tuning_does_not_separate_daemons() -> None:
    for line in ("output_soft_bytes = 100_000", 'membership = "lan"', "suspect_ms = 900"):
        tuned = GOOD.replace("delta_ms = 2.5", line)
        assert config.parse(tuned).digest == config.parse(GOOD).digest


# Wrong texts: line, key, expectation ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "place", "key", "expectation"),
    [
        # unknown keys, in every table
        (
            "[cluster]",
            "colour = 1\n[cluster]",
            "colour",
            "colour",
            "unknown key; expected one of: site, cluster",
        ),
        ("delta_ms", "delta", "delta", "cluster.delta", "unknown key; expected one of: name, delta_ms"),
        ('name = "west"\n', 'name = "west"\nx = 1\n', "x = 1", "site[1].x", "expected one of: name, daemon"),
        (
            'name = "west1"',
            'name = "west1"\nport = 1',
            "port",
            "site[1].daemon[0].port",
            "unknown key; expected one of: name, address, clients",
        ),
        ("cost", "costs", "costs", "link[0].costs", "unknown key; expected one of: sites, cost"),
        (", loss", ", lost", "emulate", "link[0].emulate.lost", "expected one of: delay_ms, jitter_ms, loss"),
        ("cost", '"the\\ncost"', '"the', "link[0].'the\\ncost'", "unknown key"),
        # missing keys: the line is that of the table
        ('name = "west"\n', "", "[[site]]", "site[1].name", "expected this key, but it is missing"),
        ('address = "127.0.0.1:4820"\n', "", "[[site.daemon]]", "site[1].daemon[0].address", "missing"),
        ('sites = ["east", "west"]\n', "", "[[link]]", "link[0].sites", "missing"),
        # wrong types
        (
            'name = "demo"',
            "name = 1979-05-27",
            "name = 1979",
            "cluster.name",
            "expected a string, got a date",
        ),
        (
            "delta_ms = 2.5",
            "delta_ms = true",
            "delta_ms",
            "cluster.delta_ms",
            "expected a number, got a boolean",
        ),
        ('name = "west"\n', "name = 7\n", "name = 7", "site[1].name", "expected a string, got an integer"),
        ('"127.0.0.1:4820"', "4820", "address = 4820", "site[1].daemon[0].address", "expected a string"),
        ("[[link]]", "[link]", "[link]", "link", "expected [[link]] or an array, got a table"),
        ('"unix:/tmp/east1.sock"', "1", "clients", "site[0].daemon[0].clients[0]", "expected a string"),
        ('["east", "west"]', '["east"]', "sites", "link[0].sites", "expected an array of length 2, got 1"),
        (
            "{ delay_ms = 40, loss = 0.01 }",
            "40",
            "emulate",
            "link[0].emulate",
            "expected a table, got an integer",
        ),
        ("30", "'30'", "cost", "link[0].cost", "expected a number, got a string"),
        # values outside their bounds
        ("delta_ms = 2.5", "delta_ms = 0", "delta_ms", "cluster.delta_ms", "expected a number > 0.0"),
        ("delta_ms = 2.5", "delta_ms = nan", "delta_ms", "cluster.delta_ms", "expected a number"),
        ("30", "inf", "cost", "link[0].cost", "expected a number <= 1000000000.0"),
        ("0.01", "1.0", "emulate", "link[0].emulate.loss", "expected a number < 1.0"),
        (
            "cost = 30",
            "packet_bytes = 100",
            "packet_bytes",
            "link[0].packet_bytes",
            "expected an integer >= 512",
        ),
        (
            "delta_ms = 2.5",
            "unstable_bytes = 1",
            "unstable",
            "cluster.unstable_bytes",
            "expected an integer >=",
        ),
        (
            "cost = 30",
            f"window_bytes = {10**30}",
            "window_bytes",
            "link[0].window_bytes",
            "expected an integer <=",
        ),
        (
            "delta_ms = 2.5",
            "output_hard_bytes = 65536",
            "output_hard",
            "cluster.output_hard_bytes",
            "expected more than output_soft_bytes",
        ),
        # names and addresses
        ('"east1"', '"east 1"', '"east 1"', "site[0].daemon[0].name", "has the character ' '"),
        ('"west1"', f'"{"w" * 20}"', '"www', "site[1].daemon[0].name", "20 characters; at most 19"),
        ('name = "west"\n', 'name = ""\n', 'name = ""', "site[1].name", "a site name may not be empty"),
        ("127.0.0.1:4820", "127.0.0.1", '"127.0.0.1"', "site[1].daemon[0].address", "is not HOST:PORT"),
        ("tcp:[::1]:4811", "tcp:4811", "clients", "site[0].daemon[0].clients[1]", "is not HOST:PORT"),
        (
            "unix:/tmp",
            "unx:/tmp",
            "clients",
            "site[0].daemon[0].clients[0]",
            "not unix:PATH, tls:HOST:PORT or tcp:",
        ),
        # repetitions: the line is that of the second
        ('"west1"', '"east1"', 'name = "east1"', "site[1].daemon[0].name", "'east1' appears more than once"),
        (
            "4820",
            "4810",
            '127.0.0.1:4810"',
            "site[1].daemon[0].address",
            "'127.0.0.1:4810' appears more than",
        ),
        # links
        ('"west"]', '"wost"]', '"wost"]', "link[0].sites[1]", "no site is called 'wost'; known: east, west"),
        ('"west"]', '"east"]', "sites", "link[0].sites", "expected two different sites, got 'east' twice"),
    ],
)
def test_a_wrong_value_is_named_with_its_line_and_key(
    old: str, new: str, place: str, key: str, expectation: str
) -> None:
    assert GOOD.count(old) >= 1
    text = GOOD.replace(old, new, 1)
    line = text[: text.rindex(place)].count("\n") + 1
    message = complaint(text)
    assert message.startswith(f"cluster.toml, line {line}, key {key}: ")
    assert expectation in message


def test_repeated_sites_and_links() -> None:
    again = '[[site]]\nname = "east"\n[[site.daemon]]\nname = "e2"\naddress = "h:1"\n'
    line = line_of(GOOD + again, again) + 1
    assert f"line {line}, key site[2].name: the site 'east' appears more than once" in complaint(GOOD + again)
    twice = GOOD + '[[link]]\nsites = ["west", "east"]\n'
    assert "key link[1].sites: the link 'east-west' appears more than once" in complaint(twice)


def test_an_overlay_in_pieces() -> None:
    apart = GOOD + '[[site]]\nname = "north"\n[[site.daemon]]\nname = "north1"\naddress = "h:1"\n'
    assert complaint(apart) == (
        f"cluster.toml, line {line_of(apart, '[[link]]')}, key link: "
        "expected a chain of links from 'east' to every site; not reached: north"
    )


def test_too_many_sites() -> None:
    blocks = [
        f'[[site]]\nname = "s{n}"\n[[site.daemon]]\nname = "d{n}"\naddress = "127.0.0.1:{5000 + n}"\n'
        for n in range(limits.SITES_MAX + 1)
    ]
    text = "".join(blocks)
    assert complaint(text) == (
        f"cluster.toml, line {line_of(text, blocks[-1])}, key site[{limits.SITES_MAX}]: "
        f"expected at most {limits.SITES_MAX} sites, got {limits.SITES_MAX + 1}"
    )


def test_no_site_at_all() -> None:
    assert complaint("") == "cluster.toml, line 1, key site: expected this key, but it is missing"
    assert complaint("site = []") == "cluster.toml, line 1, key site: expected at least one [[site]]"


def test_a_site_without_daemons() -> None:
    text = '[[site]]\nname = "east"\ndaemon = []\n'
    assert complaint(text) == (
        "cluster.toml, line 3, key site[0].daemon: expected at least one [[site.daemon]] in site 'east'"
    )


def test_too_many_daemons_in_a_site() -> None:
    blocks = [
        f'[[site.daemon]]\nname = "d{n}"\naddress = "127.0.0.1:{5000 + n}"\n'
        for n in range(limits.DAEMONS_PER_SITE_MAX + 1)
    ]
    text = '[[site]]\nname = "east"\n' + "".join(blocks)
    assert complaint(text) == (
        f"cluster.toml, line {line_of(text, blocks[-1])}, key site[0].daemon[{limits.DAEMONS_PER_SITE_MAX}]: "
        f"expected at most {limits.DAEMONS_PER_SITE_MAX} daemons in site 'east', "
        f"got {limits.DAEMONS_PER_SITE_MAX + 1}"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [("[[site]\n", 1), ("a = 1\nb = \n", 2), ("a = 1\n\na = 2\n", 3), ("a = [\n1,\n", 3), ('a = "x\n', 1)],
)
def test_what_is_not_toml_is_named_with_its_line(text: str, line: int) -> None:
    assert complaint(text).startswith(f"cluster.toml, line {line}: not TOML: ")


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "9" * 5_000])
def test_toml_beyond_the_limits_of_python_is_refused(text: str) -> None:
    assert complaint(text).startswith("cluster.toml: not TOML that can be read: ")


def test_a_program_gets_the_key_without_a_line() -> None:
    with pytest.raises(ConfigError) as caught:
        config.build((*chain(2), chain(1)[0]), source="scenario")
    assert str(caught.value) == "scenario, key site[2].name: the site 's0' appears more than once"


# Lines are found whatever way the TOML is written ---------------------------------------------------------

STYLES = '''\
# [[site]] in a remark
"cluster".name = """
[[site]]
name = 1 \\""" """
cluster.'delta_ms' = 1_0.5e0
site = [  # an array
  { name = "a#b", "daemon" = [ { name = "d0", address = 'h:1', clients = [
    "unix:/]", # one
    'tcp:h:2',
  ] } ] },
  { name = \'\'\'x\'\'\', daemon = [{ name = "d1", address = "h:3" }] },
]

[[ link ]]
sites = ["x",
  "nowhere"]
[link.emulate]
delay_ms = 3
[[link]]
sites = ["x", "x"]
[[link]]
sites = ["x", "x"]
emulate.loss = 0.5
'''


@pytest.mark.parametrize(
    ("old", "new", "line", "key"),
    [
        ("1_0.5e0", "-1", 5, "cluster.delta_ms"),
        ("a#b", "a#b", 7, "site[0].name"),
        ("'h:1'", "1", 7, "site[0].daemon[0].address"),
        ("'tcp:h:2'", "2", 9, "site[0].daemon[0].clients[1]"),
        ("'''x'''", "1", 11, "site[1].name"),
        ('"h:3"', "3", 11, "site[1].daemon[0].address"),
        ('"nowhere"', "7", 16, "link[0].sites[1]"),
        ("delay_ms = 3", "delay_ms = -3", 18, "link[0].emulate.delay_ms"),
        ("loss = 0.5", "loss = 2", 23, "link[2].emulate.loss"),
    ],
)
def test_lines_in_every_style_of_toml(old: str, new: str, line: int, key: str) -> None:
    assert old in STYLES
    assert complaint(STYLES.replace(old, new)).startswith(f"cluster.toml, line {line}, key {key}: ")


def test_lines_end_as_on_other_systems() -> None:
    text = GOOD.replace("cost = 30", "cost = 0").replace("\n", "\r\n")
    assert f"line {line_of(text, 'cost')}," in complaint(text)


# Addresses and listeners ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("127.0.0.1:4810", ("127.0.0.1", 4810)),
        ("host.example:0", ("host.example", 0)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, pair: tuple[str, int]) -> None:
    assert config.address(text) == pair


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "host",
        "host:",
        ":1",
        "host:-1",
        "host:65536",
        "host:1x",
        "host:٣",
        "a b:1",
        "[::1]",
        "h:" + "1" * 5000,
    ],
)
def test_what_is_not_an_address(text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"peer {text!r} is not HOST:PORT, for example")):
        config.address(text, "peer")


@pytest.mark.parametrize("text", ["unix:/tmp/x.sock", "unix:x", "tcp:127.0.0.1:1", "tcp:[::1]:1"])
def test_a_listener_is_a_path_or_an_address(text: str) -> None:
    assert config.check_listener(text) == text


@pytest.mark.parametrize(
    ("text", "expectation"),
    [
        ("", "not unix:PATH, tls:HOST:PORT or tcp:HOST:PORT"),
        ("/tmp/x.sock", "not unix:PATH, tls:HOST:PORT or tcp:HOST:PORT"),
        ("unix:", "not unix:PATH, tls:HOST:PORT or tcp:HOST:PORT"),
        ("unix:a\0b", "not unix:PATH, tls:HOST:PORT or tcp:HOST:PORT"),
        ("udp:h:1", "not unix:PATH, tls:HOST:PORT or tcp:HOST:PORT"),
        ("tcp:h", "is not HOST:PORT"),
        ("unix:" + "é" * 54, "the path is longer than 107 bytes"),
    ],
)
def test_what_is_not_a_listener(text: str, expectation: str) -> None:
    with pytest.raises(ConfigError, match=expectation):
        config.check_listener(text)


def test_values_cannot_be_changed() -> None:
    parsed: Config = config.parse(GOOD)
    with pytest.raises(AttributeError):
        parsed.digest = 0  # type: ignore[misc]


# Writing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [GOOD, cli_config.EXAMPLE], ids=["good", "example"])
def test_what_is_written_is_read_as_the_same(text: str) -> None:
    parsed = config.parse(text)
    assert config.parse(config.as_toml(parsed)) == parsed


def test_every_kind_of_value_is_written() -> None:
    hostile = 'a "quoted" \\ name\twith [brackets]'
    daemons = (
        DaemonConfig("d1", "h:1", ("unix:/tmp/d1",), tcp_address="h:2", spread=("unix:/tmp/d1.spread",)),
        DaemonConfig("d2", "h:3", spread=4803),
        DaemonConfig("d3", "h:4", spread=True),
    )
    built = config.build(
        (SiteConfig("east", daemons[:2], multicast="off"), SiteConfig("west", daemons[2:])),
        (LinkConfig(("east", "west"), cost=2.5, emulate=Emulation(delay_ms=3.0, loss=0.01)),),
        Settings(name=hostile, suspect_ms=1_500.0, check_addresses=False),
    )
    assert config.parse(config.as_toml(built)) == built


@pytest.mark.parametrize(
    ("host", "is_added"),
    [
        ("192.0.2.7", True), ("tea.example", True), ("[2001:db8::7]", True),
        ("127.0.0.1", False), ("localhost", False), ("0.0.0.0", False), ("[::]", False), ("127.0.0.3", False),
    ],
)  # fmt: skip
def test_clients_of_spread_find_a_daemon_of_a_lan_at_localhost_too(host: str, is_added: bool) -> None:
    daemon = DaemonConfig("d", f"{host}:4800", spread=4803)
    assert daemon.spread_places == (f"tcp:{host}:4803", "unix:/tmp/4803")
    assert daemon.spread_near == ("tcp:127.0.0.1:4803" if is_added else None)
    assert DaemonConfig("d", f"{host}:4800", spread=("tcp:192.0.2.7:4803",)).spread_near is None
    assert DaemonConfig("d", f"{host}:4800").spread_near is None


def test_a_word_that_is_none_of_those_that_may_be_left_out_has_its_reason() -> None:
    text = (
        '[[site]]\nname = "s"\n[[site.daemon]]\nname = "d"\naddress = "127.0.0.1:4800"\ntime = "refrence"\n'
    )
    with pytest.raises(ConfigError, match="reference"):
        config.parse(text, "a file")
