"""The access list at real daemons: who may come in, what each may do, and what everybody else notices."""

import asyncio
import logging
import os
import time
from pathlib import Path

import pytest
from guarded import guarded, write_token
from local_cluster import Cluster
from raw_client import RawClient, status, wait_until

import antiphon
from antiphon.blocking import Session, connect
from antiphon.client import ask_reload, ask_status
from antiphon.errors import Disconnected, NotAllowed, Refused
from antiphon.wire import frames

LIST = f"""
[[user]]
name = "boss"
unix = [{os.getuid()}]

[[user]]
name = "clerk"
token_file = "clerk.token"
priority_max = 3

[[allow]]
users = ["boss"]
groups = ["*"]
may = ["join", "send", "lock", "call", "status", "trace", "attach", "reload"]

[[allow]]
users = ["clerk"]
groups = ["tea.*", "#*"]
may = ["join", "send"]
"""


def text_of(event: object) -> bytes:
    assert isinstance(event, antiphon.Message), event
    return event.payload


def next_message(session: Session) -> bytes:
    """The payload of the next message, behind whatever else comes."""
    while not isinstance(event := session.receive(timeout_s=10), antiphon.Message):
        pass
    return event.payload


class Clerk:
    """A cluster with the list above, and the clerk's token."""

    def __init__(self, cluster: Cluster, text: str = LIST, sites: int = 1) -> None:
        self.token = write_token(cluster.directory / "clerk.token")
        self.list = cluster.directory / "access.toml"
        self.daemons = cluster.start(guarded(cluster.directory, text, sites))
        self.daemon = self.daemons[0]
        self.place = self.daemon.places[0]

    def connect(self, name: str = "clerk", **options: object) -> Session:
        return connect(self.place, name=name, token=self.token, **options)  # type: ignore[arg-type]


def test_the_kernel_says_who_connects_over_a_unix_socket(cluster: Cluster) -> None:
    clerk = Clerk(cluster)
    with connect(clerk.place, name="boss") as boss:
        boss.join("anything")
        (row,) = ask_status(clerk.place)["sessions"]
    assert row["user"] == "boss"


def test_a_user_may_join_and_send_where_a_rule_says_so(cluster: Cluster) -> None:
    clerk = Clerk(cluster)
    with connect(clerk.place, name="boss") as boss, clerk.connect() as session:
        boss.join("tea.green")
        session.join("tea.green")
        session.send("tea.green", b"hot")
        assert next_message(boss) == b"hot" == next_message(session)
        session.send(boss.name, b"for you alone")
        assert next_message(boss) == b"for you alone"


def test_a_join_that_is_not_allowed_raises_and_the_session_goes_on(cluster: Cluster) -> None:
    clerk = Clerk(cluster)
    with clerk.connect() as session:
        with pytest.raises(NotAllowed, match="user 'clerk' may not join 'coffee'") as caught:
            session.join("coffee")
        assert caught.value.code == "not-allowed" and session.groups == frozenset()
        session.join("coffee", wait=False)
        with pytest.raises(NotAllowed):
            session.receive(timeout_s=10)
        session.join("tea.black")
        session.send("tea.black", b"well")
        assert next_message(session) == b"well"
        session.wait_accepted()


async def test_the_asyncio_session_raises_the_same(cluster: Cluster) -> None:
    clerk = Clerk(cluster)
    async with antiphon.connect(clerk.place, token=clerk.token) as session:
        with pytest.raises(NotAllowed, match="may not join"):
            await session.join("coffee")
        await session.join("tea.black")
        await session.send("coffee", b"?")
        async with asyncio.timeout(10):
            while not isinstance(event := await session.receive(), antiphon.NotSent):
                pass
        assert event.reason == "user 'clerk' may not send to 'coffee'"
        with pytest.raises(NotAllowed):
            await session.send("coffee", b"again")
        await session.send("tea.black", b"fine")
        await session.wait_accepted()


def test_messages_that_are_not_allowed_come_back_and_nobody_gets_them(cluster: Cluster) -> None:
    clerk = Clerk(cluster)
    with connect(clerk.place, name="boss") as boss, clerk.connect() as session:
        boss.join("coffee")
        boss.join("tea.x")
        session.send_many("coffee", [b"1", b"2", b"3"])
        session.send("tea.x", b"4")
        session.wait_accepted()
        returned = session.receive(timeout_s=10)
        assert isinstance(returned, antiphon.NotSent)
        assert (returned.group, returned.count) == ("coffee", 3)
        assert [one.payload for one in returned.messages] == [b"1", b"2", b"3"]
        with pytest.raises(NotAllowed):
            session.send(["tea.x", "coffee"], b"5")
        session.send("tea.x", b"6")
        assert [next_message(boss), next_message(boss)] == [b"4", b"6"]


def test_who_sends_and_closes_at_once_hears_of_it(cluster: Cluster) -> None:
    clerk = Clerk(cluster)
    for number in range(20):
        session = clerk.connect(f"c{number}")
        session.send("coffee", b"?")
        session.close()
        assert session.denied == {"coffee": "user 'clerk' may not send to 'coffee'"}


def test_locks_and_calls_have_words_of_their_own(cluster: Cluster) -> None:
    clerk = Clerk(cluster)
    with clerk.connect() as session:
        session.join("tea.x")
        with pytest.raises(NotAllowed, match=r"may not use locks of 'tea\.x'"):
            session.lock("tea.x", "cup", timeout_s=10)
        with pytest.raises(NotAllowed, match=r"may not call 'tea\.x'"):
            session.call("tea.x", b"?", timeout_s=10)
        session.send("tea.x", b"still here")
        session.wait_accepted()


def test_who_may_join_and_lock_may_answer_calls(cluster: Cluster) -> None:
    text = LIST.replace('may = ["join", "send"]', 'may = ["join", "lock"]')
    clerk = Clerk(cluster, text)
    with connect(clerk.place, name="boss") as boss, clerk.connect() as session:
        session.join("tea.x")
        with session.handle("tea.x", 0, timeout_s=10):

            async def ask() -> object:
                async with antiphon.connect(clerk.place, name="asker") as asker:
                    return await asker.call("tea.x", b"sugar?", timeout_s=20)

            async def both() -> object:
                asking = asyncio.create_task(ask())
                while not isinstance(event := await asyncio.to_thread(session.receive, 10), antiphon.Call):
                    pass
                await asyncio.to_thread(session.answer, event, b"no")
                return await asking

            assert asyncio.run(both()) == b"no"
        assert boss.name


def test_priority_sessions_and_groups_have_a_limit(cluster: Cluster) -> None:
    text = LIST.replace("priority_max = 3", "priority_max = 3\nlimits = { sessions = 2, groups = 2 }")
    clerk = Clerk(cluster, text)
    with pytest.raises(Refused, match="may have priority 3 at most, not 4"):
        clerk.connect(priority=4)
    with clerk.connect("c1", priority=3) as one, clerk.connect("c2") as other:
        with pytest.raises(Refused, match="has its 2 sessions") as refused:
            clerk.connect("c3")
        assert refused.value.code == "user-limit"
        one.join("tea.1")
        other.join("tea.1")
        with pytest.raises(NotAllowed, match="are in 2 groups") as caught:
            one.join("tea.2")
        assert caught.value.code == "user-limit"
        other.leave("tea.1")
        one.join("tea.2")
    with clerk.connect("c3") as third:
        third.join("tea.3")
        third.join("tea.4")


@pytest.mark.parametrize("limit", ["bytes_per_s = 200_000", "messages_per_s = 200"])
def test_who_sends_faster_than_allowed_is_read_more_slowly(cluster: Cluster, limit: str) -> None:
    text = LIST.replace("priority_max = 3", f"priority_max = 3\nlimits = {{ {limit} }}")
    clerk = Clerk(cluster, text)
    with connect(clerk.place, name="boss") as boss, clerk.connect("c1") as one, clerk.connect("c2") as other:
        boss.join("tea.x")
        began_s = time.monotonic()
        for session in (one, other):  # 600 messages and 600 kB in all, of which a second's worth is free
            for _ in range(6):
                session.send_many("tea.x", [bytes(1_000)] * 50)
        slowest_s = 0.0
        for _ in range(20):
            asked_s = time.monotonic()
            boss.send(boss.name, b"me")
            while next_message(boss) != b"me":
                pass
            slowest_s = max(slowest_s, time.monotonic() - asked_s)
            time.sleep(0.05)
        one.wait_accepted()
        other.wait_accepted()
        took_s = time.monotonic() - began_s
    assert 1.5 < took_s < 12, took_s
    assert slowest_s < 1, "somebody else waits for them"


def test_whoever_is_not_in_the_list_is_refused_in_words(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    clerk = Clerk(cluster)
    clerk.list.write_text(LIST.replace(f"unix = [{os.getuid()}]", "unix = [54321]"))
    assert ask_reload(clerk.place).is_changed
    token = "not the clerk's token at all".replace(" ", "-")
    with pytest.raises(Refused, match=r"has no user for user [0-9]+ of this machine"):
        connect(clerk.place)
    with pytest.raises(Refused, match="the token is not known here"):
        connect(clerk.place, token=token)
    with pytest.raises(Refused, match="has no user"):
        ask_status(clerk.place)
    with clerk.connect() as session:
        session.join("tea.x")
    assert clerk.token not in caplog.text and token not in caplog.text


def test_a_token_that_has_expired_is_refused(cluster: Cluster) -> None:
    text = LIST.replace("priority_max = 3", 'token_expires = "2020-01-31"')
    clerk = Clerk(cluster, text)
    with pytest.raises(Refused, match="the token of user 'clerk' has expired"):
        clerk.connect()


def test_the_status_is_for_those_who_may_see_it(cluster: Cluster, tmp_path: Path) -> None:
    clerk = Clerk(cluster, LIST + '[[allow]]\nusers = ["clerk"]\nmay = ["trace"]\n')
    with pytest.raises(Refused, match="user 'clerk' may not see the status"):
        ask_status(clerk.place, token=clerk.token)
    with pytest.raises(Refused, match="may not reload"):
        ask_reload(clerk.place, token=clerk.token)
    (tmp_path / "traces").mkdir()
    with clerk.connect(trace=tmp_path / "traces") as session:
        with pytest.raises(Refused):
            session.status()
        session.join("tea.x")
    assert list((tmp_path / "traces").glob("*.jsonl"))
    shown = ask_status(clerk.place, token=clerk.token, groups=0, sessions=0)
    assert set(shown) <= {"cluster", "daemons", "incarnation", "groups", "sessions", "runtime"}
    assert not shown["groups"] and not shown["sessions"]


def test_reloading_changes_what_sessions_may_from_then_on(cluster: Cluster) -> None:
    clerk = Clerk(cluster)
    with clerk.connect() as session:
        session.join("tea.x")
        session.send("coffee", b"too early")
        while not isinstance(session.receive(timeout_s=10), antiphon.NotSent):
            pass
        with pytest.raises(NotAllowed):
            session.send("coffee", b"too early")
        clerk.list.write_text(LIST.replace('"tea.*"', '"tea.*", "coffee"'))
        assert ask_reload(clerk.place).is_changed
        session.join("coffee")
        session.send("coffee", b"now")
        assert next_message(session) == b"now"


def test_a_session_that_may_no_longer_what_it_does_is_over(cluster: Cluster) -> None:
    clerk = Clerk(cluster)
    with clerk.connect("c1") as member, clerk.connect("c2") as other:
        member.join("tea.x")
        clerk.list.write_text(LIST.replace('"tea.*"', '"coffee"'))
        assert ask_reload(clerk.place).is_changed
        with pytest.raises(Disconnected, match=r"user 'clerk' may not join 'tea\.x' any more"):
            while True:
                member.receive(timeout_s=10)
        other.join("coffee")
        clerk.list.write_text(LIST.replace('"clerk.token"', '"boss.token"'))
        write_token(clerk.list.parent / "boss.token")
        assert ask_reload(clerk.place).is_changed
        with pytest.raises(Disconnected, match="the token is not known here"):
            while True:
                other.receive(timeout_s=10)


def test_a_flood_of_what_was_allowed_stops_at_once(cluster: Cluster) -> None:
    clerk = Clerk(cluster)
    with clerk.connect() as session:
        session.send_many("tea.x", [b"x" * 100] * 10_000)
        clerk.list.write_text(LIST.replace('"tea.*"', '"coffee"'))
        assert ask_reload(clerk.place).is_changed
        session.send_many("tea.x", [b"x" * 100] * 10_000)
        session.wait_accepted()
        assert isinstance(session.receive(timeout_s=10), antiphon.NotSent)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[[user]", "not TOML"),
        (LIST.replace('"clerk.token"', '"none.token"'), "cannot read"),
        (LIST.replace('users = ["clerk"]', 'users = ["clark"]'), "no user is called 'clark'"),
        (LIST.replace("priority_max = 3", "unix = ['nobody of that name']"), "has no user"),
    ],
)
def test_a_wrong_list_changes_nothing_and_says_so(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, text: str, fault: str
) -> None:
    clerk = Clerk(cluster)
    with clerk.connect() as session:
        session.join("tea.x")
        clerk.list.write_text(text)
        answer = ask_reload(clerk.place)
        assert not answer.is_changed and fault in answer.told
        assert "the access list stays as it was" in caplog.text
        session.send("tea.x", b"as before")
        assert next_message(session) == b"as before"
    with clerk.connect("later") as later:
        later.join("tea.y")


def test_files_of_tokens_that_others_can_read_are_refused(cluster: Cluster) -> None:
    clerk = Clerk(cluster)
    path = clerk.list.parent / "clerk.token"
    path.chmod(0o640)
    answer = ask_reload(clerk.place)
    assert not answer.is_changed and "is open to others: chmod 600" in answer.told
    assert clerk.token not in answer.told


def test_the_list_counts_sessions_that_break_off(cluster: Cluster) -> None:
    text = LIST.replace("priority_max = 3", "limits = { sessions = 1 }")
    clerk = Clerk(cluster, text)
    for number in range(3):
        with RawClient(clerk.place) as client:
            client.say(frames.Credential(clerk.token))
            client.say(frames.Connect(frames.PROTOCOL_VERSION, f"r{number}"))
            client.hear(frames.Welcome)
        wait_until(lambda: "clerk" not in status(clerk.place)["runtime"]["access"]["users"])


def test_a_token_after_the_greeting_is_a_bad_frame(cluster: Cluster) -> None:
    clerk = Clerk(cluster)
    with RawClient(clerk.place, "raw") as client:
        client.say(frames.Credential(clerk.token))
        assert client.hear(frames.Goodbye).code == "bad-frame"


def test_a_secret_is_shown_nowhere(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    clerk = Clerk(cluster)
    with clerk.connect() as session:
        session.join("tea.x")
        assert clerk.token not in repr(session) + repr(vars(session)) + str(session.status)
        assert clerk.token not in repr(frames.Credential(clerk.token))
        shown = str(ask_status(clerk.place))
    assert "clerk" in shown and clerk.token not in shown and clerk.token not in caplog.text


def test_without_a_list_a_token_does_no_harm(cluster: Cluster) -> None:
    (daemon,) = cluster.start()
    with connect(daemon.places[0], token="a-token-that-nobody-asked-for") as session:
        session.join("anything")


def test_both_ends_of_two_sites_keep_to_their_own_lists(cluster: Cluster) -> None:
    clerk = Clerk(cluster, sites=2)
    far = clerk.daemons[1].places[0]
    with connect(far, name="boss") as boss, clerk.connect() as session:
        boss.join("tea.x")
        session.send("tea.x", b"over the sea")
        assert next_message(boss) == b"over the sea"
        with pytest.raises(NotAllowed):
            session.join("coffee")
