"""Check a configuration file, print one to start from, make one from that of Spread, or make a key."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from antiphon import config as configuration
from antiphon.cli.options import read_file
from antiphon.errors import ConfigError
from antiphon.words import counted

KEY_FILE = "cluster.key"
"""The name that the example has for it."""
EXAMPLE = """\
# An Antiphon cluster of three sites. The same file goes to every daemon:
#   antiphon daemon --config cluster.toml --name oslo1
# Only [[site]] and its daemons are needed; every other value below is the default or an illustration.

[cluster]
name = "example"        # goes into every packet: clusters with different names never mix
delta_ms = 5.0          # how long, at most, an idle daemon waits before it tells that it has nothing to say
membership = "wan"      # how long slow daemons are waited for at most: "wan" (10 s) or "lan" (2.5 s)

[security]
key_file = "cluster.key"                    # the same for all daemons, readable by nobody else; to make it:
                                            #   antiphon config keygen cluster.key
next_key_file = "next.key"                  # there is such a file only while keys change
# insecure = true       # instead of a key: daemons that other machines reach do without one

[[site]]
name = "oslo"

[[site.daemon]]         # one daemon a site, or more: clients of one that dies go on at the next
name = "oslo1"
address = "127.0.0.1:4810"                  # UDP, between daemons
clients = ["unix:/tmp/antiphon-oslo1.sock", "tcp:127.0.0.1:4811"]

[[site.daemon]]
name = "oslo2"
address = "127.0.0.1:4815"
clients = ["unix:/tmp/antiphon-oslo2.sock"]

[[site]]
name = "lima"

[[site.daemon]]
name = "lima1"
address = "127.0.0.1:4820"
clients = ["unix:/tmp/antiphon-lima1.sock"]

[[site]]
name = "perth"

[[site.daemon]]
name = "perth1"
address = "127.0.0.1:4830"
clients = ["unix:/tmp/antiphon-perth1.sock"]

# Links between sites. Without any [[link]], every pair of sites is joined at cost 1.
[[link]]
sites = ["oslo", "lima"]
cost = 55               # messages follow the cheapest path; the delay in milliseconds is a good cost

[[link]]
sites = ["lima", "perth"]
cost = 75
# packet_bytes = 1400     # a ceiling; without it, the link finds out what gets through
# protocol = "tcp"        # everything between these two sites over TCP, where UDP does not get through
# congestion = "reno"     # the window's rules; the default is "cubic"
# rate_bytes_per_s = 10000000               # a ceiling on what each side sends
# emulate = { delay_ms = 75.0, jitter_ms = 2.0, loss = 0.01 }   # imitate a long path on one machine

# An edge is in no view, so nobody waits for it: for clients who mostly receive, by the thousand. Daemons that
# know other edges, or none, still work together.
#   antiphon daemon --config cluster.toml --name hall
[[edge]]
name = "hall"
clients = ["unix:/tmp/antiphon-hall.sock"]
attach = ["oslo1", "lima1"]                 # the first that works; a daemon, another edge, or an address
"""


def check(file: Annotated[Path, typer.Argument(metavar="FILE", help="A configuration file (TOML).")]) -> None:
    """Check a configuration file.

    Exits 0 with a summary, or 1 with the line, the key and what was expected.

    \b
    Example:
      antiphon config check cluster.toml
    """
    try:
        checked = configuration.parse(read_file(file), str(file))
    except ConfigError as error:
        print(f"antiphon: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    names = "; ".join(
        f"{site.name} ({', '.join(daemon.name for daemon in site.daemon)})" for site in checked.sites
    )
    counts = ", ".join(
        counted(count, noun)
        for count, noun in (
            (len(checked.sites), "site"),
            (checked.daemon_count, "daemon"),
            (len(checked.links), "link"),
        )
    )
    names += f"; edges: {', '.join(edge.name for edge in checked.edges)}" if checked.edges else ""
    print(f"{file}: fine. Cluster {checked.settings.name!r}, {counts}: {names}")


def example(
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write it there instead, and a key beside it."),
    ] = None,
) -> None:
    """Print a commented, valid configuration of three sites; or write it, with a new key.

    \b
    Examples:
      antiphon config example > cluster.toml
      antiphon config example --out cluster.toml
    """
    if out is None:
        print(EXAMPLE, end="")
        return
    from antiphon.runtime import key_files  # what seals takes time to load

    key_file = out.parent / KEY_FILE
    try:
        with out.open("x") as file:
            file.write(EXAMPLE)
    except FileExistsError:
        raise ConfigError(f"{out}: there is such a file already; it stays") from None
    if key_file.exists():
        print(f"{out}: written; {key_file}: the key that was there")
    else:
        print(f"{out}: written; {key_file}: key {key_files.make(key_file).name}, copy it to every daemon")


def keygen(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write it; there is no such file yet.")
    ],
) -> None:
    """Make a key for a cluster: a file that only its owner can read.

    All daemons of the cluster have the same one (key_file in [security]) and seal with it what they send to
    one another. Copy it to their machines as you would a password.

    \b
    Example:
      antiphon config keygen cluster.key
    """
    from antiphon.runtime import key_files  # what seals takes time to load

    key = key_files.make(file)
    print(f"{file}: key {key.name}, for all daemons of one cluster; nobody else may read it")
