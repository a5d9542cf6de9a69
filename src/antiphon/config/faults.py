"""What is wrong with a configuration, and where: said in one line."""

import re
import tomllib
from typing import get_args, get_type_hints

from msgspec import Struct

from antiphon.config.security import Security, TlsConfig
from antiphon.config.values import DaemonConfig, EdgeConfig, Emulation, File, LinkConfig, Settings, SiteConfig
from antiphon.errors import ConfigError

Key = tuple[str | int, ...]
"""Where a value stands in the file: names of keys and places in arrays."""

_TABLES: dict[Key, type[Struct]] = {
    (): File,
    ("cluster",): Settings,
    ("site",): SiteConfig,
    ("site", "daemon"): DaemonConfig,
    ("link",): LinkConfig,
    ("link", "emulate"): Emulation,
    ("edge",): EdgeConfig,
    ("security",): Security,
    ("security", "tls"): TlsConfig,
}
_WORDS = {
    "array": "an array",
    "bool": "a boolean",
    "date": "a date",
    "datetime": "a date",
    "float": "a number",
    "float | null": "a number",
    "int": "an integer",
    "object": "a table",
    "object | null": "a table",
    "str": "a string",
    "str | null": "a string",
    "time": "a time",
}


class Fault(Exception):
    """What is wrong, and where."""

    def __init__(self, key: Key, what: str) -> None:
        super().__init__(what)
        self.key = key
        self.what = what


def _choices(hint: object) -> list[str]:
    """The words that a literal allows, also one that may be left out, or of which there may be several."""
    found: list[str] = []
    for choice in get_args(hint):
        found += [choice] if isinstance(choice, str) else _choices(choice)
    return found


def read_complaint(error: str, tables: dict[Key, type[Struct]] = _TABLES) -> Fault:
    """msgspec's complaint as a place and an expectation in the words of TOML; `tables` are those of the
    file."""
    what, _, path = error.partition(" - at `$")
    key: Key = tuple(int(index) if index else name for index, name in re.findall(r"\[(\d+)\]|\.(\w+)", path))
    names = tuple(part for part in key if isinstance(part, str))
    if what == "Expected `array`, got `object`":
        return Fault(key, f"expected [[{'.'.join(names)}]] or an array, got a table")
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        return Fault((*key, missing[1]), "expected this key, but it is missing")
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what, re.DOTALL):
        known = ", ".join(tables[names].__struct_fields__)
        return Fault((*key, unknown[1]), f"unknown key; expected one of: {known}")
    if what.startswith("Invalid enum value "):
        known = ", ".join(_choices(get_type_hints(tables[names[:-1]])[names[-1]]))
        return Fault(key, f"expected one of: {known}")
    words = re.sub(r"`([^`]*)`", lambda match: _WORDS.get(match[1], match[1]), what)
    return Fault(key, words[:1].lower() + words[1:])


def explain(fault: Fault, source: str, line: int | None = None) -> str:
    """One line: where (source, line, key), and what was expected there."""
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{_quoted(part)}" for part in fault.key)[1:]
    place = f"{source}, line {line}" if line else source
    return f"{place}, key {where}: {fault.what}"


def _quoted(name: str) -> str:
    """A name as TOML writes it: only one that is not a plain word needs quotes."""
    return name if re.fullmatch(r"[\w-]+", name) else repr(name)


def read_toml(text: str, source: str) -> dict[str, object]:
    """The tables in `text`, or a ConfigError that calls it `source`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_explain_syntax(str(error), text, source)) from None
    except (RecursionError, ValueError) as error:
        raise ConfigError(f"{source}: not TOML that can be read: {error}") from None


def _explain_syntax(error: str, text: str, source: str) -> str:
    """tomllib's complaint, which ends in its place, with the line where all our messages have it."""
    what, _, place = error.partition(" (at ")
    line = re.match(r"line (\d+)", place)
    number = line[1] if line else text.count("\n") + 1
    return f"{source}, line {number}: not TOML: {what[:1].lower()}{what[1:]}"
