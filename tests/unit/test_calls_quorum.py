"""Calls in a group that may lose its quorum: what is refused, and what waits for the quorum.

A group can lose its quorum without losing a member: one that joins may wish a greater part than is here.
"""

import pytest
from call_town import GROUP, Person, Town

from antiphon import limits
from antiphon.calls import CallId
from antiphon.wire.calls import CallMode


def service(*names: str) -> tuple[Town, list[Person]]:
    """A group with members that want handler 0, in this order."""
    town = Town()
    people = [town.person(name) for name in names]
    for person in people:
        town.join(person)
        town.run()
        person.wants()
        town.run()
    return town, people


def repeat(caller: Person, call: CallId) -> None:
    send = caller.desk.caller.repeat(call)
    assert send is not None
    caller.do([send])


def test_a_call_of_which_no_message_was_sent_is_over() -> None:
    town, (a,) = service("#a#d")
    caller = town.person("#x#d")
    town.decide(False)
    id = caller.call()
    town.run()
    assert caller.refused == [id] and not len(caller.desk.caller) and not a.calls


def test_a_call_that_was_sent_goes_on_to_wait_when_it_is_repeated_in_vain() -> None:
    """It was delivered and may be executed: its caller must not be told that nothing was sent."""
    town, (a,) = service("#a#d")
    caller = town.person("#x#d")
    id = caller.call()
    town.run()
    town.decide(False)
    repeat(caller, id)
    town.run()
    assert not caller.refused and len(caller.desk.caller) == 1
    a.answer(a.calls[0], b"late")
    town.run()
    assert not caller.results
    town.decide(True)
    town.run()
    assert [(result.id, result.payload) for result in caller.results] == [(id, b"late")]


def test_a_call_whose_message_was_refused_while_another_one_is_under_way_waits_for_that() -> None:
    town, (a,) = service("#a#d")
    caller = town.person("#x#d")
    town.decide(False)
    id = caller.call()
    town.decide(True)
    repeat(caller, id)
    town.run()
    assert not caller.refused and [call.id for call in a.calls] == [id]


def test_a_call_that_may_have_been_sent_by_a_lost_connection_goes_on_to_wait() -> None:
    town, _ = service("#a#d")
    caller = town.person("#x#d")
    caller.call()
    town.queue.clear()  # nobody knows what became of it
    town.decide(False)
    town.reconnect(caller, "#x#e")
    town.run()
    assert not caller.refused and len(caller.desk.caller) == 1


def test_answers_wait_for_the_quorum() -> None:
    for mode in (CallMode.ONE, CallMode.ALL):
        town, (a,) = service("#a#d")
        caller = town.person("#x#d")
        caller.call(mode=mode)
        town.run()
        town.decide(False)
        a.answer(a.calls[0], b"here")  # perhaps before it knows
        town.run()
        assert not caller.results
        town.decide(True)
        town.run()
        assert [result.payload or result.answers["#a#d"] for result in caller.results] == [b"here"]


def test_what_waits_for_the_quorum_is_kept_however_much_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its member does not get the call again, so nobody else would answer it."""
    town, (a,) = service("#a#d")
    caller = town.person("#x#d")
    caller.call()
    town.run()
    town.decide(False)
    town.run()
    monkeypatch.setattr(limits, "CALLS_OPEN_MAX", 1)
    a.answer(a.calls[0], b"here")
    town.decide(True)
    town.run()
    assert [result.payload for result in caller.results] == [b"here"]


def test_nobody_begins_to_work_at_a_call_without_a_quorum() -> None:
    """A new holder waits for what others remember, and is cut off: the others find another holder."""
    town, (a,) = service("#a#d")
    caller = town.person("#x#d")
    b = town.person("#b#d")
    town.join(b)
    town.run()
    b.wants()
    town.unlock("#a#d")
    caller.call()
    while b.desk.answerer(GROUP) is None or not len(b.desk.answerer(GROUP).open):
        assert town.step()
    town.queue.clear()  # what the other one would tell is lost with it
    assert not b.mine and b.desk.waiting() == [GROUP]
    town.has_quorum = False
    town.lose(a)
    town.run()
    assert not b.mine
    town.decide(True)
    town.run()
    assert len(b.mine) == 1


def test_what_others_remember_is_asked_for_again_when_the_group_may_go_on() -> None:
    """The member that was to tell could not; nobody was lost, so that no view says that it will not."""
    town, (a,) = service("#a#d")
    caller = town.person("#x#d")
    id = caller.call()
    town.run()
    a.answer(a.calls[0], b"by a")
    town.run()
    b = town.person("#b#d")
    town.join(b)
    town.run()
    b.wants()
    assert town.step()  # it asks
    assert b.desk.waiting() == [GROUP]
    town.decide(False)
    town.run()
    assert not b.desk.waiting()  # nobody can tell now, however long it waits
    town.decide(True)
    town.unlock("#a#d")
    town.run()
    memory = b.desk.answerer(GROUP).memory
    assert memory.find(id) is not None and memory.find(id).payload == b"by a"
