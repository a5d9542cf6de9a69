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
delta_ms = 5.0          # the longest time until an idle daemon announces that it has nothing to send
membership = "wan"      # the longest time to wait for a slow daemon: "wan" (10 s) or "lan" (2.5 s)

[security]
key_file = "cluster.key"                    # the same for all daemons, and secret; to make it:
                                            #   antiphon config keygen cluster.key
next_key_file = "next.key"                  # this file exists only while the key changes
# insecure = true       # instead of a key: packets between machines are not encrypted

[[site]]
name = "oslo"

[[site.daemon]]         # one or more daemons per site; if one dies, its clients can use the next
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
# packet_bytes = 1400     # a maximum; by default the link finds the largest size that gets through
# protocol = "tcp"        # TCP between these two sites, if UDP does not get through
# congestion = "reno"     # the window's rules; the default is "cubic"
# rate_bytes_per_s = 10000000               # the maximum rate of each side
# emulate = { delay_ms = 75.0, jitter_ms = 2.0, loss = 0.01 }   # imitate a long path on one machine

# An edge is in no view, so no daemon waits for it: use it for many clients that mostly receive. Daemons work
# together even if their files have different edges.
#   antiphon daemon --config cluster.toml --name hall
[[edge]]
name = "hall"
clients = ["unix:/tmp/antiphon-hall.sock"]
attach = ["oslo1", "lima1"]                 # daemons, other edges or addresses, in order of preference
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
        typer.Option(
            "--out", metavar="FILE", help="Write it to this file instead, with a new key beside it."
        ),
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
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist yet.")],
) -> None:
    """Make a key for a cluster: a file that only its owner can read.

    All daemons of the cluster have the same key (key_file in [security]) and seal the packets between them
    with it. Copy it to their machines as you would copy a password.

    \b
    Example:
      antiphon config keygen cluster.key
    """
    from antiphon.runtime import key_files  # what seals takes time to load

    key = key_files.make(file)
    print(f"{file}: key {key.name}, for all daemons of one cluster; keep it secret")
