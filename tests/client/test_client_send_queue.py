"""Messages on their way out: what is gathered, what is refused, what becomes of the bytes."""

import pytest

from antiphon import limits
from antiphon.client import Sent, _ledger
from antiphon.client._ledger import Ledger
from antiphon.client._send_queue import SendQueue
from antiphon.errors import MessageTooLarge, UsageError
from antiphon.service import Service
from antiphon.types import Message
from antiphon.wire import bundle, frames

AGREED = Service.AGREED


def add(
    send_queue: SendQueue,
    payload: bytes,
    groups="chat",
    service=AGREED,
    tag=0,
    self_discard=False,
    resilience=None,
) -> None:
    send_queue.add(groups, payload, service, tag, self_discard, resilience)


def drain(send_queue: SendQueue, step: int = 1 << 30) -> list[list[Message] | frames.FromClient]:
    """Everything queued, taken `step` bytes at a time and decoded."""
    send_queue.close_bundle()
    data = bytearray()
    while send_queue.queued_bytes:
        piece = b"".join(send_queue.buffers())[:step]
        send_queue.written(len(piece))
        data += piece
    found, used, needed = frames.split(memoryview(bytes(data)))
    assert (used, needed) == (len(data), 0)
    return [
        bundle.decode(frame) if kind == frames.FrameKind.BUNDLE else frames.decode_from_client(frame)
        for kind, frame in found
    ]


def payloads(bundles: list[list[Message] | frames.FromClient]) -> list[list[bytes]]:
    return [[message.payload for message in messages] for messages in bundles if isinstance(messages, list)]


def test_consecutive_messages_with_one_key_share_a_bundle():
    send_queue = SendQueue("#a#d1")
    for index in range(3):
        add(send_queue, bytes([index]), tag=5)
    (messages,) = drain(send_queue)
    assert isinstance(messages, list)
    assert [message.payload for message in messages] == [b"\0", b"\1", b"\2"]
    assert {(m.sender, m.groups, m.service, m.tag) for m in messages} == {("#a#d1", ("chat",), AGREED, 5)}


@pytest.mark.parametrize(
    "change",
    [
        {"groups": "news"},
        {"groups": ("chat", "news")},
        {"service": Service.SAFE},
        {"tag": 1},
        {"self_discard": True},
        {"resilience": 2},
        {"resilience": "total"},
    ],
)
def test_another_key_begins_another_bundle(change):
    send_queue = SendQueue("#a#d1")
    add(send_queue, b"one")
    add(send_queue, b"two", **change)
    add(send_queue, b"three")
    assert payloads(drain(send_queue)) == [[b"one"], [b"two"], [b"three"]]


def test_a_bundle_is_closed_at_its_target_size():
    send_queue = SendQueue("#a#d1")
    for _ in range(1_000):
        add(send_queue, bytes(100))
    bundles = payloads(drain(send_queue))
    assert sum(map(len, bundles)) == 1_000
    assert all(sum(len(payload) + 4 for payload in one) <= limits.BUNDLE_TARGET_BYTES for one in bundles)
    assert len(bundles) == 2


def test_a_bundle_is_closed_at_its_message_count():
    send_queue = SendQueue("#a#d1")
    for _ in range(limits.BUNDLE_MESSAGES_MAX + 1):
        add(send_queue, b"")
    assert [len(one) for one in payloads(drain(send_queue))] == [limits.BUNDLE_MESSAGES_MAX, 1]


def test_a_large_message_is_its_own_bundle():
    send_queue = SendQueue("#a#d1")
    large = bytes(limits.BUNDLE_TARGET_BYTES + 1)
    for payload in (b"before", large, b"after"):
        add(send_queue, payload)
    assert payloads(drain(send_queue)) == [[b"before"], [large], [b"after"]]


def test_without_gathering_each_message_is_a_bundle():
    send_queue = SendQueue("#a#d1", gathers=False)
    add(send_queue, b"one")
    add(send_queue, b"two")
    assert send_queue.open_count == 0
    assert payloads(drain(send_queue)) == [[b"one"], [b"two"]]


def test_a_request_keeps_its_place_among_messages():
    send_queue = SendQueue("#a#d1")
    add(send_queue, b"before")
    send_queue.control(frames.Join("chat"))
    add(send_queue, b"after")
    before, join, after = drain(send_queue)
    assert payloads([before, after]) == [[b"before"], [b"after"]]
    assert join == frames.Join("chat")


@pytest.mark.parametrize("step", [1, 7, 1_000, 70_000])
def test_a_socket_may_take_any_number_of_bytes(step):
    send_queue = SendQueue("#a#d1")
    sent = [bytes([index % 251]) * (index * 37) for index in range(40)] + [
        bytes(200_000 if step > 7 else 2_000)
    ]
    for payload in sent:
        add(send_queue, payload)
    assert [payload for one in payloads(drain(send_queue, step)) for payload in one] == sent


def test_more_buffers_than_one_write_may_name():
    send_queue = SendQueue("#a#d1", gathers=False)
    for _ in range(2_500):
        add(send_queue, b"x")
    assert len(send_queue.buffers()) == 1_024
    assert len(payloads(drain(send_queue))) == 2_500


def test_a_payload_is_taken_as_it_was_when_sent():
    send_queue = SendQueue("#a#d1")
    payload = bytearray(b"one")
    add(send_queue, payload)
    payload[:] = b"two"
    add(send_queue, memoryview(payload))
    assert payloads(drain(send_queue)) == [[b"one", b"two"]]


def test_a_list_of_groups_may_be_changed_between_sends():
    send_queue = SendQueue("#a#d1")
    groups = ["one"]
    add(send_queue, b"1", groups=groups)
    groups.append("two")
    add(send_queue, b"2", groups=groups)
    first, second = drain(send_queue)
    assert isinstance(first, list) and isinstance(second, list)
    assert (first[0].groups, second[0].groups) == (("one",), ("one", "two"))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"groups": ""}, "may not be empty"),
        ({"groups": "no spaces"}, "' '"),
        ({"groups": "x" * 32}, "at most 31"),
        ({"groups": "#bob"}, "daemon name may not be empty"),
        ({"groups": []}, "0 groups"),
        ({"groups": [f"g{i}" for i in range(101)]}, "101 groups"),
        ({"groups": 5}, "not int"),
        ({"groups": b"chat"}, "not bytes"),
        ({"groups": ["chat", 5]}, "must be text"),
        ({"groups": ["chat", ["news"]]}, "must be text"),
        ({"payload": "text"}, ".encode()"),
        ({"payload": 5}, "not int"),
        ({"service": 4}, "Service.AGREED"),
        ({"service": "agreed"}, "Service.AGREED"),
        ({"tag": 32_768}, "-32768 to 32767"),
        ({"tag": "x"}, "-32768 to 32767"),
    ],
)
def test_a_wrong_call_says_why_and_changes_nothing(wrong, says):
    send_queue = SendQueue("#a#d1")
    add(send_queue, b"before")
    with pytest.raises(UsageError) as caught:
        add(send_queue, **{"payload": b"x", **wrong})
    assert says in str(caught.value)
    add(send_queue, b"after")
    assert payloads(drain(send_queue)) == [[b"before", b"after"]]


def test_a_number_is_no_service_even_after_the_same_service_was_used():
    send_queue = SendQueue("#a#d1")
    add(send_queue, b"fine", service=Service.SAFE)
    with pytest.raises(UsageError, match="Service"):
        add(send_queue, b"wrong", service=int(Service.SAFE))


def test_too_large_a_message_names_the_size_and_the_limit():
    send_queue = SendQueue("#a#d1")
    add(send_queue, bytes(limits.MESSAGE_MAX_BYTES))
    with pytest.raises(MessageTooLarge, match=r"16,777,217 bytes.*at most 16,777,216"):
        add(send_queue, bytes(limits.MESSAGE_MAX_BYTES + 1))


def test_unaccepted_counts_messages_and_nothing_else():
    ledger = Ledger()
    send_queue = SendQueue("#a#d1", ledger=ledger)
    send_queue.control(frames.Join("chat"))  # 1
    for _ in range(3):
        add(send_queue, b"x")  # 2 3 4
    send_queue.control(frames.Leave("chat"))  # 5
    for _ in range(2):
        add(send_queue, b"lost for all I care", service=Service.UNRELIABLE)  # 6 7
    add(send_queue, b"x")  # 8
    send_queue.close_bundle()
    for accepted, left in ((0, 4), (3, 2), (4, 1), (6, 1), (8, 0)):
        ledger.accept(accepted)
        assert send_queue.unaccepted() == left
        assert send_queue.unaccepted() == len(send_queue.unknown()), "asking changes nothing"


def test_unknown_sends_are_told_as_they_were_given():
    send_queue = SendQueue("#a#d1")
    add(send_queue, b"one", groups=["chat", "news"], service=Service.SAFE, tag=7, self_discard=True)
    add(send_queue, b"still open", groups="chat")
    assert send_queue.unknown() == (
        Sent(("chat", "news"), b"one", Service.SAFE, 7, True),
        Sent(("chat",), b"still open", AGREED, 0, False),
    )


def test_unknown_sends_tell_their_resilience():
    send_queue = SendQueue("#a#d1")
    add(send_queue, b"one", resilience="majority")
    add(send_queue, b"two", resilience=0)
    assert send_queue.unknown() == (
        Sent(("chat",), b"one", AGREED, resilience="majority"),
        Sent(("chat",), b"two", AGREED),
    )


def test_a_resilience_is_in_the_header_of_its_bundle_alone():
    send_queue, plain = SendQueue("#a#d1"), SendQueue("#a#d1")
    for asked in (None, 300, 300, 0):
        add(send_queue, b"x" * 40, resilience=asked)
    bundles = drain(send_queue)
    assert [[message.resilience for message in messages] for messages in bundles] == [
        [None], [300, 300], [None],
    ]  # fmt: skip
    add(plain, b"x" * 40)
    plain.close_bundle()
    add(send_queue, b"x" * 40, resilience=0)
    send_queue.close_bundle()
    one, other = (b"".join(queue.buffers()) for queue in (plain, send_queue))
    assert one[:72] == other[:72] and one[80:] == other[80:], "they differ in the time alone"


@pytest.mark.parametrize(
    ("asked", "service"), [(2, Service.SAFE), ("half", AGREED), (-1, AGREED), ([], AGREED)]
)
def test_a_resilience_that_cannot_be_had_changes_nothing(asked, service):
    send_queue = SendQueue("#a#d1")
    add(send_queue, b"before")
    with pytest.raises(UsageError):
        add(send_queue, b"wrong", service=service, resilience=asked)
    assert payloads(drain(send_queue)) == [[b"before"]]


def test_only_so_much_is_kept_but_all_is_counted(monkeypatch):
    monkeypatch.setattr(_ledger, "KEPT_MAX_BYTES", 10_000)
    send_queue = SendQueue("#a#d1", gathers=False)
    for number in range(100):
        add(send_queue, number.to_bytes(1, "big") * 1_000)
    assert send_queue.unaccepted() == 100
    kept = [sent.payload[0] for sent in send_queue.unknown()]
    assert 5 <= len(kept) <= 10
    assert kept == list(range(100))[-len(kept) :], "the newest"


def test_what_is_accepted_is_not_kept():
    ledger = Ledger()
    send_queue = SendQueue("#a#d1", gathers=False, ledger=ledger)
    for _ in range(10):
        add(send_queue, b"x")
    ledger.accept(7)
    ledger.forget()
    assert len(ledger._kept) == 3
    assert len(send_queue.unknown()) == send_queue.unaccepted() == 3


def test_a_new_connection_begins_with_another_name_and_account():
    send_queue = SendQueue("#a#d1")
    add(send_queue, b"lost")
    send_queue.begin_again("#a#d2", limits.MESSAGE_MAX_BYTES, Ledger())
    assert (send_queue.queued_bytes, send_queue.unknown()) == (0, ())
    add(send_queue, b"sent")
    (messages,) = drain(send_queue)
    assert isinstance(messages, list)
    assert [(message.sender, message.payload) for message in messages] == [("#a#d2", b"sent")]
