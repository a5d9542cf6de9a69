"""Seals that do not hold: what was recorded counts, or what was changed; and keys that change too soon."""

from typing import Any

from antiphon.core.effects import DatagramCounter
from antiphon.core.sealing.introductions import Introductions
from antiphon.core.sealing.keys import ClusterKey
from antiphon.core.sealing.seal import Door
from antiphon.core.sealing.window import Window
from antiphon.simulator.mutants.mutant import Mutant, Original

STRANGERS = frozenset(("sealed",))


def _trains_count_once(original: Original) -> Original:
    def take(counter: DatagramCounter, count: int = 1) -> int:
        return int(original(counter))

    return take


def _always(original: Original) -> Original:
    return lambda *_, **__: True


class _Bodies:
    """Seals a body, and nothing before it."""

    def __init__(self, cipher: Any) -> None:
        self._cipher = cipher

    def encrypt(self, nonce: bytes, body: bytes, _head: bytes) -> bytes:
        return bytes(self._cipher.encrypt(nonce, body, b""))

    def decrypt(self, nonce: bytes, body: bytes, _head: bytes) -> bytes:
        return bytes(self._cipher.decrypt(nonce, body, b""))


def _bodies_alone(original: Original) -> Original:
    return lambda *arguments: _Bodies(original(*arguments))


def _next_at_once(original: Original) -> Original:
    def choose(door: Door, receivers: Any) -> Any:
        original(door, receivers)
        door._choices[receivers] = door._mark(door.keys.preferred[0])
        return door._choices[receivers]

    return choose


SEALING: tuple[Mutant, ...] = (
    Mutant(
        "one nonce for a train", "what follows a train begins with the second nonce of the train",
        STRANGERS, DatagramCounter, "take", _trains_count_once, "keys",
    ),
    Mutant(
        "what came before counts", "packets are taken as often as they come",
        STRANGERS, Window, "is_new", _always, "keys",
    ),
    Mutant(
        "heads are not vouched for", "the seal covers the body alone",
        STRANGERS, ClusterKey, "cipher", _bodies_alone, "keys",
    ),
    Mutant(
        "former lives are believed", "whatever introduces a process shows that it is there",
        STRANGERS, Introductions, "_is_answer", _always, "keys", shown_by=5,
    ),
    Mutant(
        "the next key at once", "the next key seals before all receivers have it",
        frozenset(("steadiness",)), Door, "_choose", _next_at_once, "keys",
    ),
)  # fmt: skip
