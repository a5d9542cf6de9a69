"""The verb `config import-spread`: the configuration of a cluster of Spread as one of ours."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from antiphon.cli.options import Json, read_file
from antiphon.errors import UsageError
from antiphon.spreadwire.config import Imported, import_file


def import_spread(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A spread.conf of Spread 4 or 5.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the configuration to this file, not to stdout."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file of --out.")] = False,
    json: Json = False,
) -> None:
    """Make a configuration (TOML) from a spread.conf.

    Remarks on stderr name everything that is different here, with the line and what Antiphon does instead.
    If the file has an error, the command prints one line, exits with 2 and writes nothing.

    \b
    Example:
      antiphon config import-spread /etc/spread.conf --out cluster.toml
    """
    # Only its comments can hold other letters than ASCII, in whatever encoding.
    imported = import_file(read_file(file, errors="replace"), str(file))
    if out is not None:
        _write(out, imported.text, force)
    if json:
        print("\n".join(_objects(imported, is_told=out is None)))
        return
    if out is None:
        print(imported.text, end="")
    for remark in imported.remarks:
        print(remark.told(str(file)), file=sys.stderr)


def _write(out: Path, text: str, force: bool) -> None:
    try:
        with out.open("w" if force else "x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise UsageError(f"{out} is there already; --force overwrites it") from None
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}") from None


def _objects(imported: Imported, is_told: bool) -> list[str]:
    """An object a remark and, if it goes nowhere else, one with the configuration."""
    found: list[object] = [{"kind": "remark", **msgspec.to_builtins(remark)} for remark in imported.remarks]
    if is_told:
        found.append({"kind": "configuration", "text": imported.text})
    return [msgspec.json.encode(one).decode() for one in found]
