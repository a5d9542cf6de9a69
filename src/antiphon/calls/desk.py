"""All that one session has to do with calls: as a caller, and as a member of the groups that it joined.

A member's machine for a group (`answerer`) begins with the first call there, or the first handler that
somebody wants. Groups without calls cost nothing but the last view, which is kept.
"""

from msgspec import Struct

from antiphon import limits
from antiphon.calls.answerer import Answerer, is_handler
from antiphon.calls.caller import Caller, Result
from antiphon.calls.values import CallId, Effect, Send
from antiphon.types import Cause, LockChanged, Message, View, ViewId
from antiphon.wire.calls import CallKind, CallMark, CallStatus


class Taken(Struct, frozen=True):
    """What became of a message with the mark of a call."""

    effects: list[Effect]
    result: Result | None = None
    """A call of this session is over."""
    is_plain: bool = False
    """The application gets it as a message like any other: it is a request, and this session is not a member
    of the group that it is for."""


class CallDesk:
    """The calls of one session object."""

    def __init__(self, caller: int, me: str, *, takes_part: bool = True) -> None:
        self.caller = Caller(caller)
        self._me = me
        self._takes_part = takes_part
        """Whether the session gets views; without them it cannot answer."""
        self._views: dict[str, View] = {}
        self._since: dict[str, ViewId] = {}
        """By group, the view that this session came with, or that of the last merge."""
        self._merged: set[str] = set()
        """Groups that have merged since this session joined them."""
        self._answerers: dict[str, Answerer] = {}
        self._former: dict[str, Answerer] = {}
        """Those of groups that it has left: it may join them again, and has not forgotten what it did."""

    def answerer(self, group: str) -> Answerer | None:
        """The machine of a group in which there were calls."""
        return self._answerers.get(group)

    # What comes -------------------------------------------------------------------------------------------

    def view(self, view: View, now_us: int) -> list[Effect]:
        """A view, after which its calls come."""
        is_first = view.group not in self._views
        self._views[view.group] = view
        if is_first:
            self._since[view.group] = view.id
        elif view.cause is Cause.MERGE:
            self._since[view.group] = view.id
            self._merged.add(view.group)
        answerer = self._answerers.get(view.group)
        if answerer is not None:
            if is_first:  # after a reconnection
                return answerer.begin(view, view.id, self._earlier(view), now_us)
            return answerer.view(view, now_us)
        if any(is_handler(lock.name) for lock in view.locks) and self._takes_part:
            return self._begin(view, now_us)[1]
        return []

    def lock(self, change: LockChanged, now_us: int) -> list[Effect]:
        """A lock has changed."""
        answerer = self._answerers.get(change.group)
        if answerer is None:
            view = self._views.get(change.group)
            if view is None or not self._takes_part or not is_handler(change.lock.name):
                return []
            answerer, effects = self._begin(view, now_us)
            return effects + answerer.lock(change, now_us)
        return answerer.lock(change, now_us)

    def left(self, group: str) -> None:
        """This session is not a member of the group any more."""
        self._views.pop(group, None)
        self._since.pop(group, None)
        self._merged.discard(group)
        answerer = self._answerers.pop(group, None)
        if answerer is not None:
            answerer.rejoin(self._me)
            self._former[group] = answerer
            if len(self._former) > limits.CALL_FORMER_GROUPS_MAX:
                del self._former[next(iter(self._former))]

    def reconnected(self, me: str) -> list[Send]:
        """The session has another connection and another name, and joins its groups again; the calls that it
        sends again."""
        self._me = me
        self._views.clear()
        self._since.clear()
        self._merged.clear()
        for answerer in self._answerers.values():
            answerer.rejoin(me)
        return self.caller.again()

    def message(self, mark: CallMark, message: Message, now_us: int) -> Taken:
        """A message with the mark of a call was delivered to this session."""
        result = None
        if mark.caller == self.caller.id and mark.kind is not CallKind.REQUEST:
            result = self.caller.take(mark, message.sender, message.payload)
        view = self._views.get(message.group)
        if view is None or not self._takes_part:
            return Taken([], result, mark.kind is CallKind.REQUEST)
        answerer, effects = self._begin(view, now_us)
        return Taken(effects + answerer.take(mark, message, now_us), result)

    def _begin(self, view: View, now_us: int) -> tuple[Answerer, list[Effect]]:
        answerer = self._answerers.get(view.group)
        if answerer is not None:
            return answerer, []
        answerer = self._former.pop(view.group, None) or Answerer(view.group, self._me)
        answerer.rejoin(self._me)
        self._answerers[view.group] = answerer
        return answerer, answerer.begin(view, self._since[view.group], self._earlier(view), now_us)

    def _earlier(self, view: View) -> tuple[str, ...]:
        """The members that may know of calls that this session did not get."""
        if view.group in self._merged:
            return tuple(member for member in view.members if member != self._me)
        return view.members[: view.members.index(self._me)] if self._me in view.members else view.members

    # What the application and the driver ask --------------------------------------------------------------

    def answer(
        self, group: str, call: CallId, status: CallStatus, payload: bytes
    ) -> tuple[bool, list[Effect]]:
        """The application's answer; False if nobody waits for one any more."""
        answerer = self._answerers.get(group) or self._former.get(group)
        return (False, []) if answerer is None else answerer.answer(call, status, payload)

    def not_sent(self, group: str, mark: CallMark) -> CallId | None:
        """A message that this session wanted sent to the group was not, because the group has no quorum; its
        own call that is over with that, if one is: none of the messages that made it was sent."""
        if mark.kind is CallKind.REQUEST:
            call = CallId(mark.caller, mark.number)
            return call if self.caller.refused(call) else None
        answerer = self._answerers.get(group)
        if answerer is not None:
            answerer.not_sent(mark)
        return None

    def waiting(self) -> list[str]:
        """Groups in which this session waits to hear what other members remember."""
        return [group for group, answerer in self._answerers.items() if answerer.is_waiting]

    def waited(self, group: str, now_us: int) -> list[Effect]:
        """They have had the time to tell."""
        answerer = self._answerers.get(group)
        return [] if answerer is None else answerer.waited(now_us)
