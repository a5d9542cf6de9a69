"""The verb `config reload`: have a daemon read its access list again."""

import typer

from antiphon.cli.options import Address, Cluster, address_of
from antiphon.client import ask_reload


def reload(address: Address = None, cluster: Cluster = None) -> None:
    """Make a daemon read its access list and its certificate again.

    Exits 0 and prints what changed, or exits 1 and prints what is wrong with the new list; then nothing has
    changed. SIGHUP does the same, with the result in the daemon's log.

    \b
    Example:
      antiphon config reload --address unix:/tmp/antiphon-oslo1.sock
    """
    answer = ask_reload(address_of(address, cluster))
    if not answer.is_changed:
        typer.echo(f"antiphon: nothing has changed: {answer.told}", err=True)
        raise typer.Exit(1)
    print(f"read again: {answer.told}")
