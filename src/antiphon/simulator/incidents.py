"""What befalls a cluster, as plain data: crashes, cuts, troubles of paths, storms of clients.

The same values describe what is done to simulated daemons and what could be done to real ones, with signals
and rules of a packet filter. Daemons are named, times are whole microseconds.
"""

from typing import Literal

from msgspec import Struct

from antiphon.service import Service
from antiphon.simulator.network import AnyFault


class Incident(Struct, frozen=True, kw_only=True, tag_field="kind", tag=str.lower, omit_defaults=True):
    """Something that happens `at_us` after the beginning of the working phase."""

    at_us: int = 0


class Lasting(Incident, frozen=True, kw_only=True):
    """An incident that is over `for_us` later; 0: when everything is healed."""

    for_us: int = 0


# Daemons --------------------------------------------------------------------------------------------------


class Crash(Incident, frozen=True):
    """A daemon that runs is gone at once, with its memory and its clients."""

    daemon: str


class Restart(Incident, frozen=True):
    """A daemon that does not run starts with an empty memory, its wall clock moved by `step_us`."""

    daemon: str
    step_us: int = 0
    uptime_us: int | None = None
    """What its monotonic clock shows if the whole machine was started anew; otherwise that has gone on."""


class Stop(Incident, frozen=True):
    """A daemon is told to stop: it takes leave of its clients and of the others, and ends."""

    daemon: str
    back_us: int | None = None
    """How long after its end it is started again; None: it is not."""


class Pause(Lasting, frozen=True):
    """A daemon handles nothing for a while, and then everything that its socket could hold."""

    daemon: str


class Step(Lasting, frozen=True):
    """The wall clock of a daemon's machine is set while the daemon runs, and set right after a while."""

    daemon: str
    step_us: int


class Twin(Lasting, frozen=True):
    """A second process with the name, the number and the addresses of a daemon that runs is started elsewhere
    by mistake. All daemons hear both. When it is over, both are ended and the daemon starts anew."""

    daemon: str
    reached_by: tuple[str, ...] = ()
    """The daemons whose packets reach the second process."""
    takes_over: bool = False
    """Whether packets of those no longer reach the first one."""


# The network ----------------------------------------------------------------------------------------------


class Partition(Lasting, frozen=True):
    """Nothing gets from one part to another. There is one partition at a time: the next takes its place."""

    parts: tuple[tuple[str, ...], ...]


class Heal(Incident, frozen=True):
    """Every partition, cut and trouble is over; crashed daemons stay as they are."""


class Cut(Lasting, frozen=True):
    """Nothing gets from one daemon to the other, nor back."""

    daemons: tuple[str, str]


class OneWay(Lasting, frozen=True, rename={"sender": "from", "receiver": "to"}):
    """Packets get from one daemon to the other, but none back."""

    sender: str
    receiver: str


class Flap(Incident, frozen=True):
    """A pair of daemons is cut again and again."""

    daemons: tuple[str, str]
    down_us: int
    up_us: int
    times: int


class Hangup(Incident, frozen=True):
    """The TCP connection between two daemons, if there is one, breaks with whatever is on its way."""

    daemons: tuple[str, str]
    is_told: bool = True
    """Whether both sides learn of it at once; otherwise the second one when it says something."""


class Trouble(Lasting, frozen=True):
    """Paths between these daemons (of a pair, both directions; without any, all) have a fault."""

    fault: AnyFault
    daemons: tuple[str, ...] = ()
    is_oneway: bool = False
    """Whether only the path from the first to the second of a pair has the fault."""


class Usurp(Incident, frozen=True, rename={"sender": "from", "receiver": "to"}):
    """A packet that the sender did not send, well-formed and plausible, reaches a neighbour in its place: the
    next genuine one on their link, or on their ring, counts as a duplicate there. It is repeated."""

    sender: str
    receiver: str
    every_us: int = 0
    times: int = 1


class Babble(Incident, frozen=True, rename={"sender": "from", "receiver": "to"}):
    """A daemon of a sealed cluster sends another one packets that no daemon makes, under its own seal."""

    sender: str
    receiver: str
    every_us: int
    times: int


class Strangers(Lasting, frozen=True):
    """Who listens to a sealed cluster sends it what was heard: again, elsewhere, changed, or made up."""

    every_us: int


class Rekey(Incident, frozen=True):
    """The files with keys on a daemon's machine change, and the daemon, if it runs, reads them: the next key
    is there; or it has taken the place of the one before it, which is gone."""

    daemon: str
    step: Literal["next", "switch"]


# Clients --------------------------------------------------------------------------------------------------


class Flood(Incident, frozen=True):
    """A client of this daemon sends many bundles in a row."""

    daemon: str
    groups: tuple[str, ...]
    bundles: int
    services: tuple[Service, ...]
    size_max_bytes: int = 500
    size_min_bytes: int = 0
    messages: int = 1
    """Per bundle."""


class Visit(Lasting, frozen=True):
    """A client comes to this daemon, joins, says something, and is gone `for_us` later."""

    daemon: str
    group: str
    service: Service
    graceful: bool = False


class Crowd(Lasting, frozen=True):
    """So many clients come to this daemon at the same moment, and each joins one of the groups; `for_us`
    later all of them leave it, or hang up, at the same moment, too."""

    daemon: str
    groups: tuple[str, ...]
    count: int
    leaves: bool = False
    """Whether they leave their groups and stay connected; otherwise they hang up."""
    graceful: bool = False
    """Whether those who hang up say so."""
    views: bool = True
    """Whether they want to be told of the joins and leaves of others."""


class Exodus(Incident, frozen=True):
    """All clients of this daemon hang up at the same moment."""

    daemon: str


AnyIncident = (
    Crash
    | Restart
    | Stop
    | Pause
    | Step
    | Twin
    | Partition
    | Heal
    | Cut
    | OneWay
    | Flap
    | Hangup
    | Trouble
    | Usurp
    | Babble
    | Strangers
    | Rekey
    | Flood
    | Visit
    | Exodus
    | Crowd
)


class Trigger(Struct, frozen=True, omit_defaults=True):
    """An incident that waits for the membership: it happens `after_us` after a daemon enters a state."""

    state: str
    incident: AnyIncident
    """Its own `at_us` says from when on to wait."""
    after_us: int = 0
    daemon: str = ""
    """The daemon that enters it; any, unless named."""
    time: int = 1
    """The how-manieth time, from 1."""


def named(incident: AnyIncident) -> tuple[str, ...]:
    """The daemons without which an incident makes no sense."""
    match incident:
        case (
            Crash() | Restart() | Stop() | Pause() | Step() | Rekey() | Flood() | Visit() | Exodus() | Crowd()
        ):
            return (incident.daemon,)
        case Cut() | Flap() | Hangup() | Trouble():
            return incident.daemons
        case Twin():
            return (incident.daemon, *incident.reached_by)
        case OneWay() | Usurp() | Babble():
            return (incident.sender, incident.receiver)
        case Partition() | Heal() | Strangers():
            return ()
