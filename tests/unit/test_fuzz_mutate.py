"""The fuzzer's mutants: every kind is known and every field of it is reached, and a seed says what comes."""

from pathlib import Path
from random import Random

import pytest
from fuzz_captures import DAEMONS, captures, genuine_bundle, site_captures

from antiphon import limits
from antiphon.errors import BadFrame
from antiphon.lab.fuzz import mutate as mutation
from antiphon.lab.fuzz import packets
from antiphon.lab.fuzz.client_values import (
    client_bytes,
    client_value,
    owned_bundle,
    spread_bytes,
    spread_value,
)
from antiphon.lab.fuzz.mutate import Unencodable, change, mutate, mutate_bytes, parts
from antiphon.lab.fuzz.orders import Board, MutantRate, Orders, Record, number_of, seed_of
from antiphon.lab.fuzz.packets import Genuine, kind_of, put_together, sealed, take_apart
from antiphon.lab.fuzz.plan import KINDS
from antiphon.spreadwire import greeting, layout
from antiphon.wire import frames, packet, streams
from antiphon.wire.packet import Data
from antiphon.wire.streams import Greeting

ENOUGH = 3_000


EVERY = captures() | site_captures()


def genuine(kind: str) -> Genuine:
    found = take_apart(EVERY[kind], DAEMONS)
    assert found is not None
    return found


def test_there_is_a_capture_of_every_kind() -> None:
    assert tuple(captures()) == packets.UDP_KINDS == KINDS["udp"]
    assert set(packets.STREAM_KINDS) < set(packets.UDP_KINDS)
    assert tuple(site_captures()) == packets.SITE_KINDS


@pytest.mark.parametrize("kind", EVERY)
def test_a_packet_taken_apart_is_the_same_put_together(kind: str) -> None:
    assert kind_of(genuine(kind)) == kind
    assert sealed(put_together(genuine(kind))) == EVERY[kind]


@pytest.mark.parametrize("kind", EVERY)
def test_a_seed_and_a_number_say_what_the_mutant_is(kind: str) -> None:
    def some(seed: int) -> list[mutation.Mutant]:
        orders = Orders(1, "udp", kind, seed, 100, 9, 1.0)
        return [mutate(Random(seed_of(orders, number)), genuine(kind), put_together) for number in range(50)]

    assert some(1) == some(1)
    assert some(1) != some(2)


@pytest.mark.parametrize("kind", EVERY)
def test_every_field_is_reached_and_can_be_written(kind: str) -> None:
    random = Random(kind)
    value = genuine(kind)
    reached = set()
    for _ in range(ENOUGH):
        told = mutate(random, value, put_together, bytes_share=0.0).what
        reached.update(one.split(" ")[0] for one in told.split("; "))
    assert {".".join(map(str, path)) for path, _ in parts(value)} <= reached


@pytest.mark.parametrize("kind", EVERY)
def test_most_mutants_get_past_the_first_look(kind: str) -> None:
    random = Random(kind)
    mutants = [mutate(random, genuine(kind), put_together) for _ in range(ENOUGH)]
    readable = [mutant for mutant in mutants if take_apart(sealed(mutant.data), DAEMONS) is not None]
    assert len(readable) > ENOUGH // 3
    assert len({mutant.data for mutant in mutants}) > 20


def test_a_bundle_is_changed_inside_its_packet() -> None:
    value = genuine("bundle")
    changed = mutation.replaced(value, ("body", 0, "bundle", "header", "lts"), limits.COUNTER_MAX)
    found = packet.parse(memoryview(sealed(put_together(changed))))
    assert isinstance(found, Data)
    (fragment,) = found.items
    assert isinstance(fragment, packet.Fragment)
    assert packets.take_bundle_apart(bytes(fragment.body)).header.lts == limits.COUNTER_MAX
    assert fragment.number == 12


def test_a_fragment_can_be_made_to_say_what_its_bundle_says() -> None:
    value = mutation.replaced(genuine("bundle"), ("body", 0, "bundle", "header", "number"), 4_000)
    value = mutation.replaced(value, ("body", 0, "bundle", "payloads"), [b"longer than before"])
    found = packet.parse(memoryview(sealed(put_together(packets.consistent(value)))))
    assert isinstance(found, Data)
    (fragment,) = found.items
    assert isinstance(fragment, packet.Fragment)
    assert (fragment.number, fragment.total) == (4_000, len(fragment.body))
    assert packets.take_bundle_apart(bytes(fragment.body)).payloads == [b"longer than before"]


def test_numbers_beyond_their_field_are_folded_into_it() -> None:
    value = mutation.replaced(genuine("update"), ("body", 0, "source"), 2**16 + 3)
    found = packet.parse(memoryview(sealed(put_together(value))))
    assert isinstance(found, Data)
    assert found.items[0].source == 3


def test_a_value_of_another_type_cannot_be_written() -> None:
    """A number in the place of an extension once ended the process of a daemon, not the mutant."""
    value = mutation.replaced(genuine("bundle"), ("body", 0, "bundle", "header", "extensions"), [5])
    with pytest.raises(Unencodable):
        put_together(value)


def test_integers_come_near_to_what_they_were_and_to_every_edge() -> None:
    random = Random(0)
    found = {mutation.another_integer(random, 1_000) for _ in range(20_000)}
    assert {999, 1_001, limits.COUNTER_MAX, 2**62, 2**63, 2**64 - 1, 0} <= found


def test_parts_of_other_captures_are_taken_over() -> None:
    random = Random(0)
    other = mutation.replaced(genuine("update"), ("body", 0, "lts"), 123_456_789)
    changed = [change(random, genuine("update"), [other])[0].body for _ in range(500)]
    assert any(body and body[0].lts == 123_456_789 for body in changed)


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(200))])
def test_bytes_are_cut_extended_flipped_overwritten_and_repeated(data: bytes) -> None:
    random = Random(0)
    found = [mutate_bytes(random, data) for _ in range(300)]
    assert all(mutant.what for mutant in found)
    assert {len(mutant.data) - len(data) > 0 for mutant in found} >= {True}
    assert sum(mutant.data != data for mutant in found) > 200


def test_a_value_without_any_field_is_changed_as_bytes() -> None:
    mutant = mutate(Random(0), frames.AskStatus(), client_bytes, bytes_share=0.0)
    assert mutant.data != frames.encode_control(frames.AskStatus())


# Clients --------------------------------------------------------------------------------------------------


def test_a_bundle_of_a_client_goes_out_under_the_name_of_its_session() -> None:
    value = client_value("bundle", genuine_bundle())
    assert client_bytes(value) == genuine_bundle()
    owned = packets.take_bundle_apart(client_bytes(owned_bundle(value, b"#eve#d2")))
    assert owned.header.names == b"\x07#eve#d2\x04chat\x04news"


@pytest.mark.parametrize(
    "value",
    [frames.Connect(3, "ann"), frames.Join("chat"), frames.Leave("chat"), frames.AskStatus()],
    ids=lambda value: type(value).__name__,
)
def test_control_frames_stay_frames(value: frames.FromClient) -> None:
    assert client_value("any", client_bytes(value)) == value
    random = Random(0)
    for _ in range(300):
        data = mutate(random, value, client_bytes, bytes_share=0.0).data
        if value != frames.AskStatus():
            (whole,), used, _ = frames.split(memoryview(data))
            assert used == len(data) == len(whole[1])


def test_pieces_of_spread_are_taken_apart_and_put_together() -> None:
    hint = layout.pack_hint(5, True)
    sender = layout.pack_name("#ann#d1")
    message = layout.pack_header(layout.AGREED, sender, 1, hint, 4) + layout.pack_name("chat") + b"body"
    hello = bytes((*greeting.VERSION, 1, 3)) + b"ann"
    choice = greeting.METHODS.strip().ljust(greeting.CHOICE_BYTES, b"\0")
    for kind, data in (("message", message), ("hello", hello), ("choice", choice)):
        value = spread_value(kind, data)
        assert spread_bytes(value) == data
        random = Random(kind)
        assert len({mutate(random, value, spread_bytes).data for _ in range(300)}) > 100
    with pytest.raises(BadFrame):
        more = mutation.replaced(spread_value("message", message), ("more_names",), 500)
        layout.parse_header(spread_bytes(more), 0)


def test_greetings_between_daemons_are_framed_and_folded() -> None:
    data = packets.greeting_bytes(Greeting(2**32 + 5, 1, 2, 3))
    (body,), used = streams.split(memoryview(data))
    assert used == len(data)
    assert streams.parse_greeting(body) == Greeting(5, 1, 2, 3)
    (inner,), _ = streams.split(memoryview(packets.framed(b"abc")))
    assert bytes(inner) == b"abc"


# Orders ---------------------------------------------------------------------------------------------------


def test_orders_reach_every_worker_and_what_was_done_comes_back(tmp_path: Path) -> None:
    board = Board(tmp_path, 3, make=True)
    worker = Board(tmp_path, 3)
    assert worker.orders().kind == ""
    orders = Orders(1, "udp", "beat", 7, 1_000, 5, 100.0)
    board.order(orders)
    assert worker.orders() == orders
    worker.tell(2, 1, 4)
    worker.tell(0, 1, 3)
    assert board.done(1) == 7
    assert board.done(2) == 0
    numbers = [number_of(orders, done, worker, 3) for worker in range(3) for done in range(4)]
    assert len(set(numbers)) == 12


def test_a_pace_lets_through_what_its_rate_says_and_saves_little() -> None:
    pace = MutantRate(64)
    pace.take(100.0, 10.0)
    assert sum(pace.take(100.0, 10.0 + step / 100) for step in range(1, 101)) == 100
    assert pace.take(100.0, 100.0) == 64


def test_a_record_has_the_mutants_of_the_present_orders_only(tmp_path: Path) -> None:
    record = Record(tmp_path / "record")
    record.note(Orders(1, "udp", "beat", 0, 0, 9, 1.0), 5, "d1", "old", b"x")
    record.note(Orders(2, "udp", "ack", 0, 0, 9, 1.0), 6, "d2", "new", b"y")
    record.flush()
    (line,) = (tmp_path / "record").read_text().splitlines()
    assert '"number":6' in line and '"hex":"79"' in line
