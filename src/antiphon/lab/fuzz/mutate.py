"""How a mutant is made: a value of a known layout is changed in one place or in a few, or its bytes are.

Whatever is chosen follows from the `Random` that is given: the same seed makes the same mutants of the same
captures. A change of a value goes through the layout's own encoder, so lengths and counts fit; a change of
bytes knows nothing, so they do not.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from random import Random
from typing import Any

from msgspec import Struct, structs

from antiphon import limits

EDGES = (
    0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF, 0x1_0000,
    2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1, 2**32, 2**53 - 1, 2**53, limits.COUNTER_MAX - 1024,
    limits.COUNTER_MAX - 1, limits.COUNTER_MAX, 2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1,
    limits.DAEMONS_MAX - 1, limits.DAEMONS_MAX, limits.SITES_MAX, limits.FRAME_MAX_BYTES,
    limits.BUNDLE_MAX_BYTES, limits.PACKET_MAX_BYTES,
)  # fmt: skip
"""Values at which something ends."""
ODD_TEXTS = ("", "#", "##", "a" * 31, "a" * 32, "a" * 300, "\0", "\x1b[2J", "é", "#x#d1", "!", " ", "\n")
INTEGER_BYTES = (1, 2, 4, 8)
CHANGES_MAX = 3
SHARE_OF_BYTES = 0.2
"""The share of mutants that are changed as bytes; the others keep their layout."""
HEAD_SPARED = 0.7
GROWTH_MAX = 70
"""Copies that a list may get of one of its elements: more than any of them may have."""
FILLING_MAX_BYTES = 2_000

Path = tuple[str | int, ...]
"""The way from a value to a part of it: names of fields and places in lists."""


class Mutant(Struct, frozen=True):
    """Bytes to send, and what is wrong with them in words."""

    data: bytes
    what: str


class Unencodable(Exception):
    """The layout has no way to write the changed value."""


def mutate(
    random: Random,
    value: Any,
    encode: Callable[[Any], bytes],
    pool: Sequence[Any] = (),
    *,
    bytes_share: float = SHARE_OF_BYTES,
) -> Mutant:
    """A mutant of a genuine value; `pool` has values of other captures, of which parts may be taken."""
    if random.random() >= bytes_share:
        try:
            changed, what = change(random, value, pool)
            return Mutant(encode(changed), what)
        except Unencodable:
            pass
    return mutate_bytes(random, encode(value))


# Values ---------------------------------------------------------------------------------------------------


def change(random: Random, value: Any, pool: Sequence[Any]) -> tuple[Any, str]:
    """The value with one part changed, or a few, and which ones in words."""
    if not parts(value):
        raise Unencodable  # there is nothing in it
    told = []
    for _ in range(1 if random.random() < 0.7 else random.randint(2, CHANGES_MAX)):
        path, old = _chosen(random, parts(value))
        new = _another(random, old, path, pool)
        value = replaced(value, path, new)
        told.append(f"{'.'.join(map(str, path))} {_shown(old)} -> {_shown(new)}")
    return value, "; ".join(told)


def _chosen(random: Random, found: list[tuple[Path, Any]]) -> tuple[Path, Any]:
    """Any part, but seldom one of a packet's head: most changes there are refused by the first test."""
    path, old = random.choice(found)
    if path[:1] == ("head",) and random.random() < HEAD_SPARED:
        path, old = random.choice([part for part in found if part[0][:1] != ("head",)] or found)
    return path, old


def parts(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """Every part of a value that can be changed by itself: fields, and lists as a whole."""
    if isinstance(value, Struct):
        return [
            found for name in value.__struct_fields__ for found in parts(getattr(value, name), (*path, name))
        ]
    if isinstance(value, tuple | list) and path:
        inner = [found for place, one in enumerate(value) for found in parts(one, (*path, place))]
        return [(path, value), *inner]
    return [(path, value)]


def replaced(value: Any, path: Path, new: Any) -> Any:
    """The value with another part at the end of the path."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        return structs.replace(value, **{step: replaced(getattr(value, step), rest, new)})
    inner = list(value)
    inner[step] = replaced(inner[step], rest, new)
    return tuple(inner) if isinstance(value, tuple) else inner


def _another(random: Random, old: Any, path: Path, pool: Sequence[Any]) -> Any:
    """Something else for a part: of its own kind, and often near to it or at an end of its range."""
    if pool and random.random() < 0.2:  # the same part of another capture, or a part of the same kind
        donor = parts(random.choice(pool))
        same = [part for where, part in donor if where == path]
        alike = same or [part for _, part in donor if type(part) is type(old)]
        if alike:
            return random.choice(alike)
    match old:
        case bool():
            return not old
        case Enum():
            return random.choice(list(type(old)))
        case int():
            return another_integer(random, old)
        case bytes() | bytearray() | memoryview():
            return mutate_bytes(random, bytes(old)).data
        case str():
            return random.choice((*ODD_TEXTS, old + old, old[:-1], old.upper(), old + "x"))
        case tuple() | list():
            return _another_list(random, old)
        case _:  # what may be left out
            return random.choice((0, 1, "", "x", another_integer(random, 0)))


def another_integer(random: Random, old: int) -> int:
    """Near to the old one, at an end of a range, far beyond, or anything."""
    way = random.randrange(5)
    if way == 0:
        return max(0, old + random.choice((-2, -1, 1, 2, 1024, -1024)))
    if way == 1:
        return old + (1 << random.randrange(63))
    if way == 2:
        return random.getrandbits(random.choice((8, 16, 32, 62, 64)))
    return random.choice(EDGES)


def _another_list(random: Random, old: Sequence[Any]) -> Sequence[Any]:
    inner = list(old)
    way = random.randrange(4)
    if not inner or way == 0:
        inner = inner[:-1] if random.random() < 0.5 else []
    elif way == 1:
        inner.append(random.choice(inner))
    elif way == 2:
        random.shuffle(inner)
    else:
        inner += [random.choice(inner)] * random.randint(2, GROWTH_MAX)
    return tuple(inner) if isinstance(old, tuple) else inner


def _shown(value: Any) -> str:
    text = value.hex() if isinstance(value, bytes | bytearray | memoryview) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Bytes ----------------------------------------------------------------------------------------------------


def mutate_bytes(random: Random, data: bytes) -> Mutant:
    """The bytes with an integer overwritten, bits flipped, or a part cut off, added, moved or repeated."""
    way = random.choice((_overwrite, _overwrite, _flip, _truncate, _extend, _repeat))
    if not data:
        way = _extend
    return way(random, bytearray(data))


def _overwrite(random: Random, data: bytearray) -> Mutant:
    size = random.choice([size for size in INTEGER_BYTES if size <= len(data)])
    place = random.randrange(0, len(data) - size + 1, min(size, 2))
    old = int.from_bytes(data[place : place + size], "big")
    new = another_integer(random, old) % (1 << 8 * size)
    data[place : place + size] = new.to_bytes(size, "big")
    return Mutant(bytes(data), f"bytes {place}+{size} {old} -> {new}")


def _flip(random: Random, data: bytearray) -> Mutant:
    places = sorted(random.randrange(8 * len(data)) for _ in range(random.choice((1, 1, 2, 8))))
    for place in places:
        data[place // 8] ^= 1 << place % 8
    return Mutant(bytes(data), f"bits {', '.join(map(str, places))} flipped")


def _truncate(random: Random, data: bytearray) -> Mutant:
    size = random.randrange(len(data))
    return Mutant(bytes(data[:size]), f"cut to {size} of {len(data)} bytes")


def _extend(random: Random, data: bytearray) -> Mutant:
    more = random.randbytes(random.randint(1, random.choice((8, 64, FILLING_MAX_BYTES))))
    return Mutant(bytes(data) + more, f"{len(more)} bytes added to {len(data)}")


def _repeat(random: Random, data: bytearray) -> Mutant:
    begin = random.randrange(len(data))
    end = random.randint(begin, min(len(data), begin + FILLING_MAX_BYTES))
    place = random.randint(0, len(data))
    return Mutant(
        bytes(data[:place] + data[begin:end] + data[place:]), f"bytes {begin} to {end} again at {place}"
    )
