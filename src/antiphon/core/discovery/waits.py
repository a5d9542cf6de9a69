"""How long discovery waits for what."""

from msgspec import Struct


class Waits(Struct, frozen=True):
    """The waits of discovery, in microseconds. Tests shorten some."""

    beacon_us: int = 1_000_000
    """A daemon that has a number multicasts a beacon so often, give or take an eighth."""
    silent_us: int = 3_500_000
    """A daemon that was not heard for so long is absent: three beacons in a row were lost, or it is gone."""
    hold_us: int = 600_000_000
    """The number and the name of an absent daemon are kept for it for so long."""
    listen_us: int = 1_000_000
    """A newcomer listens for so long before it claims a number; meanwhile it asks four times."""
    claim_us: int = 400_000
    """A claim stands for at least so long before the number is borne, though all have listed it."""
    confirm_us: int = 4_000_000
    """A daemon that is heard and does not list a claim for so long does not hear it: it is no longer waited
    for. More than `silent_us`, so that those that have gone do not count as deaf."""
    gap_us: int = 50_000
    """The least time between two beacons."""
    answer_us: int = 150_000
    """Answers to one question are spread over so much time."""
    rumour_us: int = 1_000_000
    """What is known of a daemon by others only is told as so much older: what is told is late by the time
    that it was under way, and daemons that tell each other would keep an absent one young for ever."""


GREETINGS_US = (100_000, 200_000, 300_000)
"""The times between a newcomer's first questions; then it asks with every beacon, until it has a number."""
