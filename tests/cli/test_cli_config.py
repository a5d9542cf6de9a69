"""`antiphon config`: the example is fine, and faults are told with line, key and expectation."""

from pathlib import Path

import pytest
from command_line import Run, is_one_line

from antiphon import config


def test_the_example_passes_its_own_check(antiphon: Run, tmp_path: Path) -> None:
    example = antiphon("config", "example")
    assert example.returncode == 0
    (tmp_path / "cluster.toml").write_text(example.stdout)
    done = antiphon("config", "check", "cluster.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 sites, 4 daemons, 2 links: oslo (oslo1, oslo2); lima (lima1); perth (perth1)" in done.stdout


def test_the_example_shows_the_defaults(antiphon: Run) -> None:
    parsed = config.parse(antiphon("config", "example").stdout)
    assert parsed.settings == config.Settings(name="example")
    assert parsed.links[1].packet_bytes == config.LinkConfig(sites=("a", "b")).packet_bytes


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("delta_ms = 5.0", 'delta_ms = "soon"', ("line 7", "cluster.delta_ms", "expected a number")),
        ("delta_ms = 5.0", "delta = 5.0", ("line 7", "delta")),
        ("packet_bytes = 1400", "packet_bytes = 14", ("packet_bytes", "512")),
        ('sites = ["oslo", "lima"]', 'sites = ["oslo", "rome"]', ("rome", "known")),
        ('address = "127.0.0.1:4820"', 'address = "127.0.0.1"', ("127.0.0.1", "HOST:PORT")),
        ("[cluster]", "[cluster", ("line 5",)),
    ],
)
def test_a_fault_is_one_line(
    antiphon: Run, tmp_path: Path, before: str, after: str, expected: tuple[str, ...]
) -> None:
    text = antiphon("config", "example").stdout
    assert before in text
    (tmp_path / "broken.toml").write_text(text.replace(before, after))
    done = antiphon("config", "check", "broken.toml")
    assert (done.returncode, done.stdout) == (1, "")
    assert is_one_line(done.stderr)
    for word in ("broken.toml", *expected):
        assert word in done.stderr


def test_a_daemon_says_the_same_of_a_broken_file(antiphon: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("[[site]]\nname = 3\n")
    done = antiphon("daemon", "--config", "broken.toml", "--name", "d1")
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert "broken.toml" in done.stderr and "line 2" in done.stderr
