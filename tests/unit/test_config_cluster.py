"""What a configuration answers: who is where, who may talk to whom, and how long the membership waits."""

import pytest
from msgspec import structs

from antiphon import config, limits
from antiphon.config import DaemonConfig, LinkConfig, Settings, SiteConfig, Timing
from antiphon.errors import ConfigError

ALONE = """\
[cluster]
name = "demo"
SETTINGS

[[site]]
name = "east"
daemon = [{ name = "east1", address = "127.0.0.1:4810" }]
"""


def sites_of(*sizes: int) -> tuple[SiteConfig, ...]:
    """Sites s0, s1, ... of these sizes."""
    return tuple(
        SiteConfig(
            f"s{site}", tuple(DaemonConfig(f"d{site}-{at}", f"s{site}:{1 + at}") for at in range(size))
        )
        for site, size in enumerate(sizes)
    )


# Sites and their daemons ----------------------------------------------------------------------------------


def test_daemon_numbers_count_through_the_sites() -> None:
    built = config.build(sites_of(2, 1, 3))
    assert built.daemon_count == 6
    assert built.daemon_names == ("d0-0", "d0-1", "d1-0", "d2-0", "d2-1", "d2-2")
    assert [built.site_of(daemon) for daemon in range(6)] == [0, 0, 1, 2, 2, 2]
    assert [built.daemons_of(site) for site in range(3)] == [(0, 1), (2,), (3, 4, 5)]
    assert [built.daemon_number(name) for name in built.daemon_names] == [0, 1, 2, 3, 4, 5]


def test_neighbours_are_those_of_the_site_and_of_linked_sites() -> None:
    links = (LinkConfig(("s0", "s1"), 3.0, packet_bytes=9_000), LinkConfig(("s2", "s1"), 5.0))
    built = config.build(sites_of(2, 1, 2), links)
    assert [built.neighbours_of(daemon) for daemon in range(5)] == [
        (1, 2), (0, 2), (0, 1, 3, 4), (2, 4), (2, 3),
    ]  # fmt: skip
    for daemon in range(5):
        others = [other for other in range(5) if built.are_neighbours(daemon, other)]
        assert tuple(others) == built.neighbours_of(daemon)


def test_without_links_everybody_is_a_neighbour() -> None:
    built = config.build(sites_of(2, 1, 2))
    assert all(len(built.neighbours_of(daemon)) == 4 for daemon in range(5))


def test_two_daemons_are_joined_by_the_link_of_their_sites() -> None:
    links = (LinkConfig(("s0", "s1"), 3.0, packet_bytes=9_000), LinkConfig(("s2", "s1"), 5.0))
    built = config.build(sites_of(2, 1, 2), links)
    assert built.link_between(1, 2) is built.link_between(2, 0) is links[0]
    assert built.link_between(4, 2) is built.link_between(2, 3) is links[1]


def test_inside_a_site_daemons_are_joined_by_a_cheap_link_with_the_defaults() -> None:
    built = config.build(sites_of(2, 1, 2), (LinkConfig(("s0", "s1")), LinkConfig(("s1", "s2"))))
    assert built.link_between(3, 4) == LinkConfig(("s2", "s2"), cost=0.01, packet_bytes=1_400)


def test_too_many_daemons_in_all() -> None:
    most = limits.DAEMONS_MAX
    full = sites_of(*[limits.DAEMONS_PER_SITE_MAX] * (most // limits.DAEMONS_PER_SITE_MAX))
    assert config.build(full).daemon_count == most
    more = SiteConfig("more", (DaemonConfig("one", "h:1"), DaemonConfig("two", "h:2")))
    with pytest.raises(ConfigError) as caught:
        config.build((*full, more))
    assert str(caught.value) == (
        f"configuration, key site[{len(full)}].daemon[0]: "
        f"expected at most {most} daemons in all sites together, got {most + 2}"
    )


# The waits of the membership ------------------------------------------------------------------------------


def test_the_presets_of_the_membership() -> None:
    lan, wan = Settings(membership="lan").timing(), Settings().timing()
    assert Settings(membership="wan").timing() == wan
    assert (lan.suspect_us, lan.hello_us, lan.gather_us) == (600_000, 342_857, 120_000)
    assert (wan.suspect_us, wan.hello_us, wan.gather_us) == (700_000, 400_000, 120_000)
    for timing in (lan, wan):
        assert timing.join_us <= timing.gather_us
        assert timing.suspect_us <= timing.recovery_us
        assert timing.suspect_us <= timing.suspect_max_us
        assert timing.gather_us <= timing.gather_max_us
        assert timing.probe_us <= timing.probe_max_us
        assert timing.damp_us <= timing.damp_max_us


@pytest.mark.parametrize("field", Timing.__struct_fields__)
def test_a_file_may_overrule_each_figure_of_the_preset(field: str) -> None:
    preset = Settings(membership="lan").timing()
    wait_us = getattr(preset, field) + 500
    key = f"{field.removesuffix('_us')}_ms"
    parsed = config.parse(ALONE.replace("SETTINGS", f'membership = "lan"\n{key} = {wait_us / 1_000}'))
    assert parsed.settings.timing() == structs.replace(preset, **{field: wait_us})


@pytest.mark.parametrize(
    ("lines", "key", "expectation"),
    [
        ('membership = "moon"', "membership", "expected one of: lan, wan"),
        ("membership = 1", "membership", "expected a string, got an integer"),
        ('suspect_ms = "1 s"', "suspect_ms", "expected a number, got a string"),
        ("suspect_ms = 0.9", "suspect_ms", "expected a number >= 1.0"),
        ("damp_max_ms = 3_600_001", "damp_max_ms", "expected a number <= 3600000.0"),
        ("join_ms = 400.5", "join_ms", "expected at most gather_ms, which is 120"),
        ("gather_ms = 29.5", "gather_ms", "expected at least join_ms, which is 30"),
        ("suspect_ms = 7000", "suspect_ms", "expected at most recovery_ms, which is 6000"),
        ("probe_max_ms = 10", "probe_max_ms", "expected at least probe_ms, which is 250"),
        ("damp_ms = 40000", "damp_ms", "expected at most damp_max_ms, which is 30000"),
        ("damp_max_ms = 50\ndamp_ms = 60", "damp_ms", "expected at most damp_max_ms, which is 50"),
    ],
)
def test_a_wrong_wait_is_named_with_its_line_and_key(lines: str, key: str, expectation: str) -> None:
    text = ALONE.replace("SETTINGS", lines)
    line = text[: text.index(f"{key} =")].count("\n") + 1
    with pytest.raises(ConfigError) as caught:
        config.parse(text, "cluster.toml")
    assert str(caught.value) == f"cluster.toml, line {line}, key cluster.{key}: {expectation}"
