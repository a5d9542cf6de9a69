"""`python -m antiphon` is the command `antiphon`."""

from antiphon.cli.entry import run

run()
