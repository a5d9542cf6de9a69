"""What a soak does, and when: everything follows from its length, and all acts are alike."""

from msgspec import Struct

ACTS = 3
"""The first is the warm-up."""
SECONDS = 600.0
QUICK_SECONDS = 15.0
SHORTEST_SECONDS = 6.0
LONGEST_SECONDS = 7 * 24 * 3_600.0

LOOK_EVERY_S = 3.0
LOOKS_MIN = 5
"""The least number of looks in an act, however short."""
SCENE_S = 40.0
"""How long it takes to apply each trouble once."""

SHORT_PAUSE_S = 0.5
"""Less than the daemons' suspicion: no daemon may be lost because of it."""
LONG_PAUSE_S = 3.0
"""More than that: the daemon is lost, and found again."""
DEAD_S = 2.5
"""The time between a kill and the next start."""
BRIEFLY_PAUSED = ("d1", "d6", "d3", "d4", "d2", "d5")
PAUSED = ("d3", "d4", "d2", "d5")
KILLED = ("d1", "d6", "d5")
"""In turn. Those that are never killed show what a long life does to memory; d1 speaks for its site, d6 is
alone at its own."""

LONG_SECONDS = 120.0
"""A soak of at least this length has time to warm up, and for every kind of trouble, slow receivers
included."""


class Trouble(Struct, frozen=True, order=True):
    """Something that is done to the cluster."""

    second: float
    """The second of its act at which it begins."""
    kind: str
    """`pause`, `kill`, or `abandon`: clients die without a word."""
    daemon: str = ""
    lasts_s: float = 0.0

    @property
    def words(self) -> str:
        """For a person.

        >>> Trouble(1.0, "pause", "d1", 0.5).words, Trouble(2.0, "abandon").words
        ('d1 paused for 0.5 s', 'restless clients killed')
        """
        match self.kind:
            case "pause":
                return f"{self.daemon} paused for {self.lasts_s:g} s"
            case "kill":
                return f"{self.daemon} killed"
            case _:
                return "restless clients killed"


class SoakPlan(Struct, frozen=True):
    """A soak of this length."""

    seconds: float

    @property
    def act_s(self) -> float:
        """How long an act is."""
        return self.seconds / ACTS

    @property
    def looks(self) -> int:
        """How often the processes are looked at in an act."""
        return max(LOOKS_MIN, round(self.act_s / LOOK_EVERY_S))

    @property
    def scenes(self) -> int:
        """How many scenes an act has."""
        return max(1, round(self.act_s / SCENE_S))

    @property
    def is_long(self) -> bool:
        """Whether it has time to warm up and for every kind of trouble."""
        return self.seconds >= LONG_SECONDS

    def troubles(self) -> list[Trouble]:
        """The troubles of one act, the earliest first.

        >>> for trouble in SoakPlan(120.0).troubles():
        ...     print(trouble.second, trouble.words)
        4.0 d1 paused for 0.5 s
        12.0 d3 paused for 3 s
        22.0 restless clients killed
        28.0 d1 killed
        """
        scene_s = self.act_s / self.scenes
        found = []
        for scene in range(self.scenes):
            begins_s = scene * scene_s
            briefly, paused, killed = (
                names[scene % len(names)] for names in (BRIEFLY_PAUSED, PAUSED, KILLED)
            )
            found += [
                Trouble(begins_s + 0.1 * scene_s, "pause", briefly, SHORT_PAUSE_S),
                Trouble(begins_s + 0.3 * scene_s, "pause", paused, LONG_PAUSE_S),
                Trouble(begins_s + 0.55 * scene_s, "abandon"),
                Trouble(begins_s + 0.7 * scene_s, "kill", killed, DEAD_S),
            ]
        return sorted(found)
