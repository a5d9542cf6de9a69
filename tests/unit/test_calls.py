"""Calls: the machines of callers and members, in a group whose order is made by hand."""

import random

import pytest
from call_town import GROUP, Person, Town

from antiphon import limits
from antiphon.calls import CallId, Memory
from antiphon.errors import BadFrame, UsageError
from antiphon.types import Cause, Lock, View, ViewId
from antiphon.wire.calls import CallKind, CallMark, CallMode, CallStatus, encode_body, encode_mark, parse_mark
from antiphon.wire.calls import Memory as ToldMemory


def service(*names: str, in_line: bool = True) -> tuple[Town, list[Person]]:
    """A group with members that want handler 0, in this order."""
    town = Town()
    people = [town.person(name) for name in names]
    for person in people:
        town.join(person)
        town.run()
        if in_line:
            person.wants()
            town.run()
    return town, people


def view_of(
    members: tuple[str, ...],
    number: int,
    cause: Cause,
    changed: tuple[str, ...],
    along: tuple[str, ...],
    parts: tuple[tuple[str, ...], ...] = (),
    locks: tuple[Lock, ...] = (),
) -> View:
    """A view of the group that not all of its members get."""
    return View(GROUP, ViewId(number, 0, 1, 0), members, along, cause, changed, parts, locks=locks)


def test_the_holder_of_the_handler_answers_and_every_member_gets_the_call() -> None:
    town, (a, b, c) = service("#a#d", "#b#d", "#c#d")
    caller = town.person("#x#d")
    id = caller.call(b"what?")
    town.run()
    assert [(call.is_mine, call.payload) for call in a.calls] == [(True, b"what?")]
    assert [call.is_mine for person in (b, c) for call in person.calls] == [False, False]
    assert a.answer(a.calls[0], b"that")
    town.run()
    (result,) = caller.results
    assert (result.id, result.status, result.payload, result.answerer) == (id, 0, b"that", "#a#d")
    assert not any(len(person.desk.answerer(GROUP).open) for person in (a, b, c))


def test_an_error_of_the_application_reaches_the_caller() -> None:
    town, (a,) = service("#a#d")
    caller = town.person("#x#d")
    caller.call()
    town.run()
    a.answer(a.calls[0], b"no such table", CallStatus.ERROR)
    town.run()
    assert caller.results[0].status is CallStatus.ERROR and caller.results[0].payload == b"no such table"


def test_the_next_holder_gets_what_the_lost_one_has_not_answered() -> None:
    town, (a, b, c) = service("#a#d", "#b#d", "#c#d")
    caller = town.person("#x#d")
    caller.call(b"1")
    caller.call(b"2")
    town.run()
    a.answer(a.calls[0], b"one")
    town.run()
    town.lose(a)
    town.run()
    assert [(call.payload, call.is_mine, call.is_again) for call in b.calls] == [
        (b"1", False, False),
        (b"2", False, False),
        (b"2", True, True),
    ]
    assert not c.mine
    b.answer(b.calls[2], b"two")
    town.run()
    assert [result.payload for result in caller.results] == [b"one", b"two"]


def test_a_replicated_service_answers_every_call_everywhere_and_one_answer_is_sent() -> None:
    town, (a, b) = service("#a#d", "#b#d")
    caller = town.person("#x#d")
    caller.call(b"1")
    town.run()
    assert b.answer(b.calls[0], b"by b")  # kept
    town.run()
    assert not caller.results
    town.lose(a)
    town.run()
    assert [result.payload for result in caller.results] == [b"by b"]
    assert len(b.calls) == 1  # it was answered, so it does not come again


def test_the_first_answer_in_the_order_is_the_one() -> None:
    town, (a, b) = service("#a#d", "#b#d")
    caller = town.person("#x#d")
    caller.call()
    town.run()
    a.answer(a.calls[0], b"first")  # on its way when its sender is lost
    message = town.queue.pop()
    town.lose(a)
    town.run()
    town.queue.append(message)  # no daemon would do that: the answer comes after the view without its sender
    b.answer(b.mine[0], b"second")
    town.run()
    assert [result.payload for result in caller.results] == [b"first"]


def test_a_repeated_call_is_answered_from_memory() -> None:
    town, (a, b) = service("#a#d", "#b#d")
    caller = town.person("#x#d")
    caller.call()
    town.run()
    a.answer(a.calls[0], b"once")
    answer = town.queue[-1]
    town.queue[-1] = (answer[0] - {"#x#d"}, answer[1])  # the caller's daemon crashes before it comes
    town.run()
    town.reconnect(caller, "#x#e")
    town.run()
    assert [result.payload for result in caller.results] == [b"once"]
    assert len(a.calls) == 1 and len(b.calls) == 1


def test_a_repeated_call_that_waits_is_answered_at_the_new_place() -> None:
    town, (a,) = service("#a#d")
    caller = town.person("#x#d")
    caller.call()
    town.run()
    town.reconnect(caller, "#x#e")
    town.run()
    assert len(a.calls) == 1
    a.answer(a.calls[0], b"there")
    town.run()
    assert [result.payload for result in caller.results] == [b"there"]


def test_a_member_that_comes_later_learns_what_was_answered_before_it_answers() -> None:
    town, (a,) = service("#a#d")
    caller = town.person("#x#d")
    caller.call()
    town.run()
    a.answer(a.calls[0], b"once")
    answer = town.queue[-1]
    town.queue[-1] = (answer[0] - {"#x#d"}, answer[1])
    town.run()
    b = town.person("#b#d")
    town.join(b)
    town.run()
    b.wants()
    town.run()
    town.lose(a)
    town.run()
    town.reconnect(caller, "#x#e")
    town.run()
    assert not b.calls and [result.payload for result in caller.results] == [b"once"]


def test_a_new_holder_waits_for_what_others_remember() -> None:
    town, (a,) = service("#a#d")
    caller = town.person("#x#d")
    caller.call(b"1")
    town.run()
    a.answer(a.calls[0], b"once")
    answer = town.queue[-1]
    town.queue[-1] = (answer[0] - {"#x#d"}, answer[1])
    town.run()
    b = town.person("#b#d")
    town.join(b)
    town.unlock("#a#d")
    b.wants()
    town.reconnect(caller, "#x#e")  # repeats before b has heard anything
    town.run()
    assert [call.is_mine for call in b.calls] == [False]
    assert [result.payload for result in caller.results] == [b"once"]


def test_nobody_holds_the_handler_so_calls_wait_and_the_caller_is_told() -> None:
    town, (a, b) = service("#a#d", "#b#d", in_line=False)
    caller = town.person("#x#d")
    id = caller.call()
    town.run()
    assert [call.is_mine for call in (*a.calls, *b.calls)] == [False, False] and not caller.results
    b.wants()
    town.run()
    assert [(call.is_mine, call.is_again) for call in b.calls] == [(False, False), (True, True)]
    roster = caller.desk.caller.give_up(id)
    assert roster is not None and roster.members == ("#a#d", "#b#d") and not roster.is_held


def test_calls_whose_callers_have_given_up_are_not_handed_out() -> None:
    town, (a,) = service("#a#d", in_line=False)
    caller = town.person("#x#d")
    caller.call()
    town.run()
    town.now_us += 61_000_000
    a.wants()
    town.run()
    assert not a.mine


def test_all_members_answer_and_the_lost_are_named() -> None:
    town, (a, b, c) = service("#a#d", "#b#d", "#c#d", in_line=False)
    caller = town.person("#x#d")
    caller.call(mode=CallMode.ALL)
    town.run()
    assert all(person.calls[0].is_mine for person in (a, b, c))
    a.answer(a.calls[0], b"A")
    b.answer(b.calls[0], b"odd", CallStatus.ERROR)
    town.run()
    assert not caller.results
    town.lose(c)
    town.run()
    (result,) = caller.results
    assert dict(result.answers) == {"#a#d": b"A"} and result.answers.errors == {"#b#d": "odd"}
    assert result.answers.missing == ("#c#d",) and result.members == ("#a#d", "#b#d", "#c#d")


def test_all_members_answer_although_the_first_is_lost_before_it_has_told_who_they_are() -> None:
    town, (a, b) = service("#a#d", "#b#d", in_line=False)
    caller = town.person("#x#d")
    caller.call(mode=CallMode.ALL)
    assert town.step()
    town.queue.clear()  # what they said is lost
    town.lose(a)
    town.run()
    b.answer(b.calls[0], b"B")
    town.run()
    (result,) = caller.results
    assert dict(result.answers) == {"#b#d": b"B"} and result.answers.missing == ("#a#d",)


def test_a_repeated_call_to_all_is_answered_by_each_from_memory() -> None:
    town, people = service("#a#d", "#b#d", in_line=False)
    caller = town.person("#x#d")
    caller.call(mode=CallMode.ALL)
    town.run()
    for person in people:
        person.answer(person.calls[0], person.name.encode())
    town.queue = [(receivers - {"#x#d"}, event) for receivers, event in town.queue]
    town.run()
    town.reconnect(caller, "#x#e")
    town.run()
    assert dict(caller.results[0].answers) == {"#a#d": b"#a#d", "#b#d": b"#b#d"}
    assert [len(person.calls) for person in people] == [1, 1]


def test_the_bare_fact_of_delivery() -> None:
    town, (a, b) = service("#a#d", "#b#d", in_line=False)
    caller = town.person("#x#d")
    caller.call(mode=CallMode.DELIVERED)
    town.run()
    assert caller.results[0].members == ("#a#d", "#b#d")
    assert [call.is_mine for call in (*a.calls, *b.calls)] == [False, False]


def test_a_member_may_call_its_own_group() -> None:
    town, (a, b) = service("#a#d", "#b#d")
    b.call(b"?")
    town.run()
    a.answer(a.calls[0], b"!")
    town.run()
    assert [result.payload for result in b.results] == [b"!"] and len(b.calls) == 1


def test_a_member_that_reconnects_does_not_get_what_it_has_worked_at() -> None:
    town, (a,) = service("#a#d")
    caller = town.person("#x#d")
    caller.call()
    town.run()
    b = town.person("#b#d")
    town.join(b)
    b.wants()
    town.run()
    town.reconnect(a, "#a#e")
    a.wants()
    town.run()
    assert b.mine[0].is_mine
    town.lose(b)
    town.run()
    assert len(a.calls) == 1  # what it has is the same call
    a.answer(a.calls[0], b"late, but once")
    town.run()
    assert [result.payload for result in caller.results] == [b"late, but once"]


def test_parts_that_merge_tell_each_other_what_was_answered() -> None:
    town, (a,) = service("#a#d")
    caller = town.person("#x#d")
    caller.call()
    town.run()
    a.answer(a.calls[0], b"by a")
    receivers, event = town.queue[-1]
    town.queue[-1] = (receivers - {"#x#d"}, event)
    town.run()
    b = town.person("#b#d")
    b.do(b.desk.view(View(GROUP, ViewId(1, 0, 2, 1), ("#b#d",), (), Cause.JOIN, ("#b#d",)), 0))
    lock = town.locks["handler/0"]
    town.members = ("#a#d", "#b#d")
    town.locks["handler/0"] = type(lock)(lock.name, "#b#d", 9, ("#a#d",))
    for person in (a, b):
        view = View(
            GROUP, ViewId(2, 0, 1, 0), town.members, (person.name,), Cause.MERGE,
            tuple(name for name in town.members if name != person.name),
            (("#a#d",), ("#b#d",)), locks=(town.locks["handler/0"],),
        )  # fmt: skip
        person.do(person.desk.view(view, town.now_us))
    town.reconnect(caller, "#x#e")
    town.run()
    assert not b.mine and [result.payload for result in caller.results] == [b"by a"]


def test_parts_that_merge_tell_each_other_what_was_answered_and_forgotten() -> None:
    """The caller has gone on since the answer, so that only its floor tells of it."""
    town, (a, b) = service("#a#d", "#b#d")
    caller = town.person("#x#d")
    id = caller.call()
    town.run()
    lost = view_of(("#b#d",), 2, Cause.NETWORK, ("#a#d",), along=("#b#d",))  # and B holds nothing
    b.do(b.desk.view(lost, town.now_us))
    town.members = ("#a#d",)
    a.do(a.desk.view(view_of(("#a#d",), 3, Cause.NETWORK, ("#b#d",), ("#a#d",)), town.now_us))
    a.answer(a.calls[0], b"by a")
    town.run()
    caller.call()
    town.run()
    answerer = b.desk.answerer(GROUP)
    assert answerer is not None and answerer.open.get(id) is not None
    town.members = ("#b#d", "#a#d")
    lock = town.locks["handler/0"] = Lock("handler/0", "#b#d", 9, ("#a#d",))
    for person, other in ((a, b), (b, a)):
        parts = ((person.name,), (other.name,))
        view = view_of(town.members, 4, Cause.MERGE, (other.name,), (person.name,), parts, (lock,))
        person.do(person.desk.view(view, town.now_us))
    town.run()
    assert answerer.open.get(id) is None and id not in [call.id for call in b.mine]


def test_members_that_say_nothing_are_not_waited_for_for_ever() -> None:
    town = Town()
    town.members = ("#mute#d",)
    b = town.person("#b#d")
    town.join(b)
    town.run()
    b.wants()
    caller = town.person("#x#d")
    caller.call()
    town.run()
    assert not b.mine and b.desk.waiting() == [GROUP]
    b.do(b.desk.waited(GROUP, town.now_us))
    assert len(b.mine) == 1


def test_a_request_for_a_group_that_is_not_joined_is_a_plain_message() -> None:
    town, (a,) = service("#a#d")
    town.send("#x#d", ("#a#d",), CallMark(CallKind.REQUEST, caller=7, number=1, oldest=1), b"odd")
    town.run()
    assert [message.payload for message in a.plain] == [b"odd"] and not a.calls


def test_the_answer_of_a_member_that_has_just_left_counts_for_all() -> None:
    """Its caller cannot know that; so the next holder must not get the call."""
    town, (a, b) = service("#a#d", "#b#d")
    caller = town.person("#x#d")
    caller.call()
    town.run()
    town.members = ("#b#d",)
    a.answer(a.calls[0], b"from the door")
    town.run()
    assert [result.payload for result in caller.results] == [b"from the door"]
    assert not len(b.desk.answerer(GROUP).open)


def test_what_strangers_remember_is_not_believed() -> None:
    town = Town()
    town.members = ("#mute#d",)
    b = town.person("#b#d")
    town.join(b)
    town.run()
    b.wants()
    town.run()
    told = encode_body(ToldMemory(True, (9, 0, 9, 9), ((77, 1_000_000),), (), ()))
    town.send("#stranger#d", (GROUP,), CallMark(CallKind.MEMORY), told)
    town.run()
    assert b.desk.waiting() == [GROUP] and not b.desk.answerer(GROUP).memory.is_forgotten(CallId(77, 1))


@pytest.mark.parametrize("kind", [CallKind.ROSTER, CallKind.MEMORY])
def test_what_is_no_roster_and_no_memory_changes_nothing(kind: CallKind) -> None:
    town, (a, b) = service("#a#d", "#b#d")
    caller = town.person("#x#d")
    id = caller.call(mode=CallMode.ALL)
    town.run()
    town.send("#b#d", (GROUP, "#x#d"), CallMark(kind, CallMode.ALL, 0, 0, 0, *_pair(id)), b"\xc1 not that")
    town.run()
    for person in (a, b):
        person.answer(person.calls[0], b"")
    town.run()
    assert len(caller.results) == 1


def _pair(id: CallId) -> tuple[int, int]:
    return id.caller, id.number


# Memory ---------------------------------------------------------------------------------------------------


def test_memory_forgets_the_oldest_and_refuses_it_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CALL_ANSWERS_MAX", 2)
    memory = Memory()
    for number in (1, 2, 3):
        memory.saw(7, 1, 0)
        assert memory.keep(CallId(7, number), CallMode.ONE, CallStatus.DONE, b"x", 0)
    assert memory.find(CallId(7, 1)) is None and memory.is_forgotten(CallId(7, 1))
    assert memory.find(CallId(7, 3)) is not None and not memory.is_forgotten(CallId(7, 4))
    assert memory.forgotten_count == 1
    assert not memory.keep(CallId(7, 1), CallMode.ONE, CallStatus.DONE, b"again", 0)


def test_memory_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CALL_ANSWERS_MAX_BYTES", 100)
    memory = Memory()
    for number in range(1, 11):
        memory.keep(CallId(7, number), CallMode.ONE, CallStatus.DONE, bytes(30), 0)
    assert len(memory) == 3


def test_callers_that_were_silent_for_long_make_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CALL_CALLERS_MAX", 2)
    memory = Memory()
    memory.saw(1, 1, 0)
    memory.saw(2, 1, 10)
    assert not memory.has_room_for(3, 20) and memory.has_room_for(1, 20)
    assert memory.has_room_for(3, limits.CALL_MEMORY_AGE_US + 1)


def test_a_call_that_is_forgotten_is_refused_and_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CALL_ANSWERS_MAX", 1)
    town, (a,) = service("#a#d")
    caller, other = town.person("#x#d"), town.person("#y#d")
    caller.call(b"1")
    town.run()
    a.answer(a.calls[0], b"one")
    receivers, event = town.queue[-1]
    town.queue[-1] = (receivers - {"#x#d"}, event)
    town.run()
    for number in range(2):
        other.call()
        town.run()
        a.answer(a.calls[-1], b"%d" % number)
        town.run()
    town.reconnect(caller, "#x#e")
    town.run()
    assert len(a.calls) == 3 and caller.results[0].status is CallStatus.FORGOTTEN


def test_too_many_open_calls_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CALLS_OPEN_MAX", 2)
    town, (a, b) = service("#a#d", "#b#d")
    caller = town.person("#x#d")
    for _ in range(3):
        caller.call()
    town.run()
    assert [result.status for result in caller.results] == [CallStatus.BUSY]
    assert len(a.calls) == len(b.calls) == 2


def test_a_session_waits_for_so_many_calls_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CALLS_WAITING_MAX", 1)
    caller = Town().person("#x#d")
    caller.call()
    with pytest.raises(UsageError, match="at most 1 calls"):
        caller.call()


# The mark -------------------------------------------------------------------------------------------------


def test_the_mark_of_a_call_in_bytes() -> None:
    mark = CallMark(CallKind.ANSWER, CallMode.ALL, 255, CallStatus.ERROR, 5_000, (1 << 64) - 1, 9, 7)
    value = encode_mark(mark)
    assert value.hex() == "0201ff0100001388ffffffffffffffff00000000000000090000000000000007"
    assert parse_mark(value) == mark


@pytest.mark.parametrize(
    "value", [b"", bytes(31), bytes(32), b"\x01\x09" + bytes(30), b"\x01\0\0\x09" + bytes(28), b"\x01" * 33]
)
def test_what_is_no_mark_is_refused(value: bytes) -> None:
    with pytest.raises(BadFrame):
        parse_mark(value)


# All together ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(200))
def test_whatever_happens_a_call_is_answered_once_and_executed_at_most_once_by_each(seed: int) -> None:
    """Members come, crash, reconnect, give the handler away; callers reconnect; answers take their time.

    No member gets a call as its own twice, or again after it was answered; a caller has one result for a
    call; what was answered is never handed to a member that could have known.
    """
    chance = random.Random(seed)
    town = Town()
    names = iter(range(10_000))
    members = [town.person("#anchor#d")]  # one stays: with the last that remembers, the memory is gone
    town.join(members[0])
    callers = [town.person(f"#x{next(names)}#d") for _ in range(3)]
    asked: dict[CallId, Person] = {}
    for _ in range(chance.randrange(100, 400)):
        match chance.randrange(12):
            case 0 if len(members) < 4:
                person = town.person(f"#m{next(names)}#d")
                members.append(person)
                town.join(person)
                person.wants()
            case 1 if len(members) > 1:
                person = members.pop(chance.randrange(1, len(members)))
                town.lose(person)
            case 2 if len(members) > 1:
                person = chance.choice(members[1:])
                town.reconnect(person, f"#r{next(names)}#d")
                person.wants()
            case 3 if town.locks.get("handler/0") is not None and town.locks["handler/0"].holder:
                name = town.locks["handler/0"].holder
                town.unlock(name)
                town.lock(name, 0)
            case 4:
                caller = chance.choice(callers)
                town.reconnect(caller, f"#x{next(names)}#d")
            case 5 | 6:
                caller = chance.choice(callers)
                asked[caller.call()] = caller
            case 7 | 8:
                person = chance.choice(members)
                for call in person.mine:
                    if chance.random() < 0.5:
                        person.answer(call, str(call.id).encode())
            case _:
                for _ in range(chance.randrange(8)):
                    town.step()
    members[0].wants()
    town.run()
    for _ in range(5):
        for person in members:
            for call in person.mine:
                person.answer(call, str(call.id).encode())
        town.run()
    assert not town.wrongs
    for person in members:
        own = [call.id for call in person.mine]
        assert len(own) == len(set(own)), "a call was handed to its member twice"
    for caller in callers:
        results = [result.id for result in caller.results]
        assert len(results) == len(set(results))
        assert all(result.payload == str(result.id).encode() for result in caller.results)
        waiting = [id for id, who in asked.items() if who is caller and id not in results]
        assert not waiting, "a call was lost"
