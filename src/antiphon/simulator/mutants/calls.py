"""Mutants of calls."""

from antiphon.calls.answerer import Answerer
from antiphon.calls.caller import Caller, Result
from antiphon.calls.memory import Memory
from antiphon.calls.open_calls import OpenCall
from antiphon.calls.values import CallId, Effect
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.types import Message, View
from antiphon.wire.calls import Answered, CallMark, CallMode, CallStatus

_BREAKS = frozenset(("calls",))


def _forgets(original: Original) -> Original:
    def keep(
        memory: Memory, call: CallId, mode: CallMode, status: CallStatus, payload: bytes | None, now_us: int
    ) -> bool:
        is_new: bool = original(memory, call, mode, status, payload, now_us)
        for oldest in list(memory._answers)[:-2]:
            memory._drop(oldest)  # and the floor stays where it is
        return is_new

    return keep


def _repeats(original: Original) -> Original:
    def find(memory: Memory, call: CallId) -> Answered | None:
        return None

    return find


def _takes_both(original: Original) -> Original:
    def take(caller: Caller, mark: CallMark, sender: str, payload: bytes) -> Result | None:
        waiting = caller._waiting.get(mark.number)
        result: Result | None = original(caller, mark, sender, payload)
        if result is not None and waiting is not None and mark.caller == caller.id:
            caller._waiting[mark.number] = waiting
        return result

    return take


def _hands_again(original: Original) -> Original:
    def view(answerer: Answerer, view: View, now_us: int) -> list[Effect]:
        for call in answerer.open:
            call.is_mine = call.is_handed = False
        return original(answerer, view, now_us)  # type: ignore[no-any-return]

    return view


def _answers_are_nothing(original: Original) -> Original:
    def take_answer(answerer: Answerer, mark: CallMark, message: Message, now_us: int) -> None:
        if message.sender == answerer._me:
            original(answerer, mark, message, now_us)

    return take_answer


def _first_refusal_ends(original: Original) -> Original:
    def refused(caller: Caller, call: CallId) -> bool:
        return caller._waiting.pop(call.number, None) is not None

    return refused


def _quorum_is_nothing(original: Original) -> Original:
    def is_due(answerer: Answerer, call: OpenCall) -> bool:
        answerer._has_quorum = True
        return original(answerer, call)  # type: ignore[no-any-return]

    return is_due


CALLS: tuple[Mutant, ...] = (
    Mutant(
        "answers forgotten early", "members remember the last two answers, and take older calls for new ones",
        _BREAKS, Memory, "keep", _forgets, "calls", 20,
    ),
    Mutant(
        "repeated calls are new", "a call that is repeated after its answer is executed again",
        _BREAKS, Memory, "find", _repeats, "calls", 20,
    ),
    Mutant(
        "second answers taken", "a caller takes every answer to a call, not the first alone",
        _BREAKS, Caller, "take", _takes_both, "calls", 20,
    ),
    Mutant(
        "views hand calls out again", "with each view, members get the calls that wait once more",
        _BREAKS, Answerer, "view", _hands_again, "calls", 20, 2,
    ),
    Mutant(
        "answers of others ignored", "a new holder executes what the one before it has answered",
        _BREAKS, Answerer, "_take_answer", _answers_are_nothing, "calls", 20, 1,
    ),
    Mutant(
        "first refusal ends", "a call is told to be refused although a message with it was sent",
        _BREAKS, Caller, "refused", _first_refusal_ends, "refusals", 20, 9,
    ),
    Mutant(
        "work without quorum", "a member begins to work at a call in a part that has no quorum",
        _BREAKS, Answerer, "_is_due", _quorum_is_nothing, "refusals", 32, 31,
    ),
)  # fmt: skip
