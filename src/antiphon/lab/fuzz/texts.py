"""Mutants of texts in lines: files of choices, in which a value may be any of many kinds."""

from random import Random

from antiphon.lab.fuzz.mutate import Mutant, mutate_bytes

ODD_VALUES = (
    "", "0", "-1", "1", "9" * 30, "1e400", "-0.0", "nan",
    "inf", "true", '""', '"x"', '"\\u0000"', '"é\\u202e"',
    '"' + "x" * 300 + '"', "[]", "{}", "[[1]]", '["a", "a"]', "[{}]", "{a = 1}", "1979-05-27",
    '"127.0.0.1:0"',
    '"[::1]:65536"', '"unix:/"', '"*"', "'''", "[" * 500,
)  # fmt: skip
"""What may stand behind an equals sign."""
BYTES_SHARE = 0.4
CHANGES_MAX = 3


def mutate_text(random: Random, text: bytes) -> Mutant:
    """The text with a line or a few that are gone, come twice, have changed places, or another key or value;
    in some cases changed as bytes."""
    if random.random() < BYTES_SHARE:
        return mutate_bytes(random, text)
    lines = text.split(b"\n")
    told = []
    for _ in range(random.randint(1, CHANGES_MAX)):
        way = random.choice(
            (_another_value, _another_value, _another_value, _remove, _repeat, _swap, _rename)
        )
        told.append(way(random, lines))
    return Mutant(b"\n".join(lines), "; ".join(told))


def _remove(random: Random, lines: list[bytes]) -> str:
    place = random.randrange(len(lines))
    if len(lines) > 1:
        del lines[place]
    return f"line {place + 1} removed"


def _repeat(random: Random, lines: list[bytes]) -> str:
    place, to = random.randrange(len(lines)), random.randrange(len(lines))
    lines.insert(to, lines[place])
    return f"line {place + 1} again before line {to + 1}"


def _swap(random: Random, lines: list[bytes]) -> str:
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return f"lines {one + 1} and {other + 1} swapped"


def _another_value(random: Random, lines: list[bytes]) -> str:
    place = random.choice([at for at, line in enumerate(lines) if b"=" in line] or [0])
    key, _, _ = lines[place].partition(b"=")
    value = random.choice(ODD_VALUES)
    lines[place] = key + b"= " + value.encode()
    return f"line {place + 1}: {value[:20]}"


def _rename(random: Random, lines: list[bytes]) -> str:
    """A key, or the name of a table, with other letters."""
    place = random.randrange(len(lines))
    start, sign, rest = lines[place].partition(b"=")
    lines[place] = mutate_bytes(random, start).data.replace(b"\n", b"") + sign + rest
    return f"line {place + 1}: another key"


_WAYS = (_another_value, _another_value, _another_value, _remove, _repeat, _swap, _rename)
