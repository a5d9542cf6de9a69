"""What is wrong with a configuration, and where: said in one line."""

import re
from typing import get_args, get_type_hints

from msgspec import Struct

from antiphon.config.values import DaemonConfig, Emulation, File, LinkConfig, Settings, SiteConfig

Key = tuple[str | int, ...]
"""Where a value stands in the file: names of keys and places in arrays."""

_TABLES: dict[Key, type[Struct]] = {
    (): File,
    ("cluster",): Settings,
    ("site",): SiteConfig,
    ("site", "daemon"): DaemonConfig,
    ("link",): LinkConfig,
    ("link", "emulate"): Emulation,
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
    """The words that a literal allows, also one that may be left out."""
    found: list[str] = []
    for choice in get_args(hint):
        found += [choice] if isinstance(choice, str) else _choices(choice)
    return found


def read_complaint(error: str) -> Fault:
    """msgspec's complaint as a place and an expectation in the words of TOML."""
    what, _, path = error.partition(" - at `$")
    key: Key = tuple(int(index) if index else name for index, name in re.findall(r"\[(\d+)\]|\.(\w+)", path))
    names = tuple(part for part in key if isinstance(part, str))
    if what == "Expected `array`, got `object`":
        return Fault(key, f"expected [[{'.'.join(names)}]] or an array, got a table")
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        return Fault((*key, missing[1]), "expected this key, but it is missing")
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what, re.DOTALL):
        known = ", ".join(_TABLES[names].__struct_fields__)
        return Fault((*key, unknown[1]), f"unknown key; expected one of: {known}")
    if what.startswith("Invalid enum value "):
        known = ", ".join(_choices(get_type_hints(_TABLES[names[:-1]])[names[-1]]))
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


def explain_syntax(error: str, text: str, source: str) -> str:
    """tomllib's complaint, which ends in its place, with the line where all our messages have it."""
    what, _, place = error.partition(" (at ")
    line = re.match(r"line (\d+)", place)
    number = line[1] if line else text.count("\n") + 1
    return f"{source}, line {number}: not TOML: {what[:1].lower()}{what[1:]}"
