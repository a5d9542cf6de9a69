"""Calls: a message to a group that is answered, as machines without clock, chance or input and output.

    values      calls, their identities, and what the machines want done
    caller      what a session that calls knows of its calls
    memory      which calls were answered, within bounds
    answerer    what a member of a group does with the calls that are delivered to it
    desk        both, for one session

The client library and the simulator's clients run the same objects. How calls travel is in `wire.calls`.

Follows: RMP 3.3 and 4.5 (multi-RPC, handlers).
Deviations: a call has an identity that survives the reconnection of its caller; the members remember which
calls were answered, hand that memory to members that come later, and give the next holder what was not
answered; an answer goes to the group, too, so that all members know it; calls are agreed or safe.
"""

from antiphon.calls.answerer import Answerer
from antiphon.calls.caller import Answers, Caller, Result
from antiphon.calls.desk import CallDesk, Taken
from antiphon.calls.memory import Memory
from antiphon.calls.values import Call, CallId, Effect, Hand, Send

__all__ = [
    "Answerer",
    "Answers",
    "Call",
    "CallDesk",
    "CallId",
    "Caller",
    "Effect",
    "Hand",
    "Memory",
    "Result",
    "Send",
    "Taken",
]
