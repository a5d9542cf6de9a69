"""What the system promises, in words: the properties of chapter 2 of the thesis, and some of our own.

Most are promised twice, to clients (boundary B4) and between daemons (B3). The simulator's oracle and the
Spark jobs each check a trace against them; their names and texts are defined here.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from msgspec import Struct


class Promise(Struct, frozen=True):
    """One promise of the system."""

    number: str
    """Its number in chapter 2 of the thesis, or a word for a promise of our own."""
    title: str
    words: str

    @property
    def name(self) -> str:
        """Number and title, as in every verdict."""
        return f"{self.number} {self.title}"

    @property
    def place(self) -> tuple[int, str]:
        """Those of the thesis come by number, then our own."""
        _, _, number = self.number.partition(".")
        return (int(number) if number.isdigit() else 1_000, self.number)


class Check(Protocol):
    """Anything that checks traces against a promise."""

    @property
    def promise(self) -> Promise: ...


AnyCheck = TypeVar("AnyCheck", bound=Check)


def in_order(checks: Iterable[AnyCheck]) -> tuple[AnyCheck, ...]:
    """The checks in the order of their promises."""
    return tuple(sorted(checks, key=lambda check: check.promise.place))


INITIAL_VIEW = Promise(
    "2.1",
    "initial view event",
    "messages and signals reach a process only as a member of a group, or by the process's private name",
)
INITIAL_VIEW_OF_DAEMONS = Promise(
    "2.1",
    "initial view event (daemons)",
    "a daemon sends, delivers and signals only after it has installed its first view",
)
SELF_INCLUSION = Promise("2.2", "self inclusion", "every view that a process installs has it as a member")
SELF_INCLUSION_OF_DAEMONS = Promise(
    "2.2",
    "self inclusion (daemons)",
    "every view that a daemon installs has it as a member, in its present incarnation",
)
LOCAL_MONOTONICITY = Promise(
    "2.3",
    "local monotonicity",
    "at one process, later views of a group have greater identifiers",
)
LOCAL_MONOTONICITY_OF_DAEMONS = Promise(
    "2.3",
    "local monotonicity (daemons)",
    "in one incarnation of a daemon, later views have greater identifiers",
)
TRANSITIONAL_SET = Promise(
    "2.4",
    "transitional set",
    "the transitional set names those members who come from the same previous view, and no others",
)
TRANSITIONAL_SET_OF_DAEMONS = Promise(
    "2.4",
    "transitional set (daemons)",
    "a daemon begins alone; later the transitional set names those who come from the same previous view",
)
NO_DUPLICATION = Promise("2.5", "no duplication", "a process delivers a message at most once")
NO_DUPLICATION_OF_DAEMONS = Promise(
    "2.5",
    "no duplication (daemons)",
    "a daemon delivers a bundle at most once",
)
DELIVER_INTEGRITY = Promise(
    "2.6",
    "deliver integrity",
    "what is delivered was sent before, with the same bytes, to the same groups, at the same service",
)
DELIVER_INTEGRITY_OF_DAEMONS = Promise(
    "2.6",
    "deliver integrity (daemons)",
    "a bundle that is delivered was sent before by its source, with the same place, messages and groups",
)
VIRTUAL_SYNCHRONY = Promise(
    "2.7",
    "virtual synchrony",
    "two processes that go from one view to the next together deliver what either delivered in the first",
)
VIRTUAL_SYNCHRONY_OF_DAEMONS = Promise(
    "2.7",
    "virtual synchrony (daemons)",
    "two daemons that go from one view to the next together deliver what either delivered in the first, "
    "if it is for both",
)
TRANSITIONAL_SIGNALS = Promise(
    "2.8",
    "transitional signals",
    "a view has at most one signal, and all who go on together have it between the same ordered messages",
)
TRANSITIONAL_SIGNALS_OF_DAEMONS = Promise(
    "2.8",
    "transitional signals (daemons)",
    "a daemon view that loses members has one general signal, and at most one early one for a group",
)
SANE_VIEW = Promise(
    "2.9",
    "sane view delivery",
    "a message is not delivered in a view earlier than the one in which its sender sent it, nor in one "
    "that its sender joined with afterwards",
)
RELIABLE = Promise(
    "2.10",
    "reliable messages",
    "a message sent to a group reaches every process that is a member then and stays one, if its daemon "
    "and the sender's go on together",
)
RELIABLE_OF_DAEMONS = Promise(
    "2.10",
    "reliable messages (daemons)",
    "a bundle reaches every destination in its view that goes on together with the daemon that sent it",
)
FIFO = Promise(
    "2.11",
    "FIFO messages",
    "a FIFO message is delivered after everything that its sender sent before and the receiver delivers, too",
)
FIFO_OF_DAEMONS = Promise(
    "2.11",
    "FIFO messages (daemons)",
    "a daemon delivers a bundle with FIFO messages after everything that their session sent before",
)
CAUSAL = Promise(
    "2.12",
    "causal messages",
    "a causal, agreed or safe message is delivered after every message in its sender's past",
)
CAUSAL_OF_DAEMONS = Promise(
    "2.12",
    "causal messages (daemons)",
    "a daemon stamps a bundle later than every bundle that it sent or delivered before",
)
AGREED = Promise(
    "2.13",
    "agreed messages",
    "the members of a view deliver the same ordered messages in the same order, and none is missing "
    "between, but for those of lost members after the signal",
)
AGREED_OF_DAEMONS = Promise(
    "2.13",
    "agreed messages (daemons)",
    "before an ordered bundle a daemon delivers all earlier ones of the view that are for it, but for "
    "those of lost daemons after the signal",
)
ONE_ORDER = Promise(
    "2.13",
    "one order",
    "all ordered messages and views, of all groups, have one order that everyone follows",
)
ONE_ORDER_OF_DAEMONS = Promise(
    "2.13",
    "one order (daemons)",
    "after an ordered bundle a daemon delivers nothing that comes before it in the order of timestamps",
)
SAFE = Promise(
    "2.14",
    "safe messages",
    "a safe message is delivered only when the daemons of all members of the view have it, and then all "
    "of them deliver it; after the signal, all who come along do",
)
SAFE_OF_DAEMONS = Promise(
    "2.14",
    "safe messages (daemons)",
    "a safe bundle is delivered only when all of its destinations in the view have it, and then all of "
    "them deliver it; after the signal, all who come along do",
)
RESILIENCE_OF_DAEMONS = Promise(
    "resilience",
    "resilient messages (daemons)",
    "a resilient bundle is delivered before the signal only when as many of its destinations in the view "
    "have it as its sender asked for, or all of them, and then so many deliver it unless they crash",
)
SELF_DELIVERY = Promise(
    "2.15",
    "self delivery",
    "a member that sends to its group and stays delivers its own message",
)
SELF_DELIVERY_OF_DAEMONS = Promise(
    "2.15",
    "self delivery (daemons)",
    "a daemon that does not crash in a view delivers its own bundles of that view",
)
MEMBERSHIP_PRECISION_OF_DAEMONS = Promise(
    "2.16",
    "membership precision (daemons)",
    "daemons that can reach one another once the faults are over end in one view of exactly these, in time",
)
TERMINATION = Promise(
    "2.17",
    "termination",
    "what was asked for takes effect: at the end the members of a group who can be together are all in "
    "one view, and have its messages",
)
TERMINATION_OF_DAEMONS = Promise(
    "2.17",
    "termination (daemons)",
    "what a daemon sent in its last view is delivered by all for whom it is, and no view is about to end",
)
SAME_VIEW_OF_DAEMONS = Promise(
    "2.18",
    "same view delivery (daemons)",
    "whichever daemons deliver a bundle do so in the view in which it was sent",
)
SANE_VIEW_OF_DAEMONS = Promise(
    "2.19",
    "sane view delivery (daemons)",
    "a bundle is sent in its view, and delivered in one that has the incarnation which sent it",
)
MEMBERSHIP_AGREEMENT = Promise(
    "2.20",
    "membership agreement",
    "two processes that install the same view of a group install the same members, in the same order",
)
MEMBERSHIP_AGREEMENT_OF_DAEMONS = Promise(
    "2.20",
    "membership agreement (daemons)",
    "two daemons that install the same view install the same members, incarnations and links",
)
NEEDLESS = Promise(
    "needless",
    "no needless waiting",
    "a daemon delivers a causal bundle as soon as it has it and has delivered everything in its sender's "
    "past that is for this daemon",
)
CHOICES = Promise(
    "choices",
    "no more than was chosen",
    "a member that chose to get messages as they come, or in the order of each sender, does not wait for "
    "more",
)
ACCESS = Promise(
    "access",
    "the access list is obeyed",
    "no session is a member of a group that it may not join, and nothing is delivered that its sender may "
    "not send",
)
QUORUM = Promise(
    "quorum",
    "one part goes on",
    "of the parts of a group of which a member wishes a quorum, at most one has it",
)
LOCKS = Promise(
    "locks",
    "one holder",
    "a lock has at most one holder in a view, none without quorum, passes on in the order of asking, and "
    "every grant has a greater number than those before; all members see the same",
)
BOUNDED = Promise("bounded", "buffers", "every buffer stays within its limit, and all are empty at the end")
WAIT_MAX_US = 100_000
"""How long a message may be ready for its place in the order and not get it, while nothing of its daemon is
under way: the daemon may be busy with other things, or wait for its turn in its site."""
PRESSURE = Promise(
    "pressure",
    "waiting for slow receivers",
    "what a session sends that never sends to a group of a slow receiver does not wait at its daemon for "
    "long while the view works and nothing of the daemon is under way",
)
STANDSTILL = Promise(
    "standstill",
    "no view stands still",
    "no view ends because of a standstill or of a state that cannot be, unless packets came that no daemon "
    "had sent",
)
PLANNED_STOP = Promise(
    "stop",
    "a planned stop",
    "if daemons are only stopped on purpose, and started, no group has a transitional signal or a view with "
    "the cause network, and no other daemon is without a view for longer than a few round trips",
)
STEADINESS = Promise(
    "steadiness",
    "those who are well work",
    "while daemons, paths or sites flap, those that are well install no more daemon views, and are without "
    "one that works for no longer, than the damping of what flaps allows",
)
TIME = Promise(
    "time",
    "the time and its bound",
    "what daemons say the time is differs from the time of the world, or of two daemons with the same "
    "internal time from one another, by no more than they say, and runs backwards at no daemon; daemons that "
    "have worked in one view for a while and have an internal time have the same one",
)
CALLS = Promise(
    "calls",
    "calls are answered at most once",
    "a call has one answer, of a member that executed it, or one other end, and nobody executes what was "
    "refused; no session object executes a call twice, or after one that is in the same view had its answer "
    "before that view, or as its own in a group without quorum",
)
EDGES = Promise(
    "edges",
    "an image of the one order",
    "a member at an edge gets what is sent to its groups once, in the core's order and with its views, "
    "and nothing is left out before a gap is told; what it sends is sent once, or it is told that this is "
    "unknown",
)
REPAIRS = Promise(
    "repairs",
    "local recovery, each piece once",
    "an edge multicasts a repair only for a request that has come since it has sent or heard the last one, "
    "and does not ask for what another one has just asked for",
)
SEALED = Promise(
    "sealed",
    "strangers count for nothing",
    "no packet counts that its sender did not make for its receiver, or that has come before, or that was "
    "sent to a former life of its receiver; no two packets are sealed with one nonce",
)
NONSENSE = Promise(
    "nonsense",
    "who sends nonsense is left out",
    "a daemon under whose seal came as much as it takes of what no daemon makes is left out of the "
    "receiver's views, at once and for a while; and no view ends for that reason before",
)
CAUSES = Promise(
    "causes",
    "no effect without its cause",
    "a member that delivers an ordered message of a daemon that does not come along, and to which its own "
    "gave no promise, has delivered every message to the same group, sent in the same daemon view, that "
    "is in its past",
)
