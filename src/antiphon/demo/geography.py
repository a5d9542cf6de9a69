"""Where the demo plays: cities, and how long a packet would travel between them."""

from itertools import combinations
from math import acos, cos, radians, sin

from msgspec import Struct

EARTH_RADIUS_KM = 6_371.0
FIBRE_KM_PER_MS = 200.0
DETOUR = 1.4
"""Cables are longer than great circles."""


class City(Struct, frozen=True):
    """A place with a person in it."""

    name: str
    person: str
    latitude: float
    longitude: float

    def delay_ms(self, other: "City") -> float:
        """One-way delay of a packet to the other city, in whole milliseconds."""
        here, there = radians(self.latitude), radians(other.latitude)
        turn = radians(self.longitude - other.longitude)
        arc = acos(sin(here) * sin(there) + cos(here) * cos(there) * cos(turn))
        return float(round(arc * EARTH_RADIUS_KM * DETOUR / FIBRE_KM_PER_MS))


CITIES = (
    City("lisbon", "alice", 38.7, -9.1),
    City("boston", "bob", 42.4, -71.1),
    City("tokyo", "carol", 35.7, 139.7),
    City("nairobi", "dan", -1.3, 36.8),
    City("lima", "erin", -12.0, -77.0),
    City("delhi", "frank", 28.6, 77.2),
    City("oslo", "grace", 59.9, 10.7),
    City("perth", "heidi", -32.0, 115.9),
)


def farthest(cities: tuple[City, ...]) -> tuple[City, City]:
    """The two cities that are farthest apart."""
    return max(combinations(cities, 2), key=lambda pair: pair[0].delay_ms(pair[1]))
