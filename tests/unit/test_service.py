"""The delivery levels: their order, their names, their bytes."""

import pytest

from antiphon.errors import UsageError
from antiphon.service import Service


def test_levels_from_weak_to_strong() -> None:
    assert [service.name for service in sorted(Service)] == [
        "UNRELIABLE", "RELIABLE", "FIFO", "CAUSAL", "AGREED", "SAFE",
    ]  # fmt: skip


def test_the_numbers_are_part_of_the_wire() -> None:
    assert [int(service) for service in Service] == [0, 1, 2, 3, 4, 5]


def test_only_agreed_and_safe_have_a_place_in_the_one_order() -> None:
    assert {service for service in Service if service.is_ordered} == {Service.AGREED, Service.SAFE}


@pytest.mark.parametrize("service", Service)
def test_every_service_is_known_by_its_name_in_any_case(service: Service) -> None:
    assert Service.parse(service.name) is service
    assert Service.parse(service.name.lower()) is service
    assert Service.parse(service.name.title()) is service


@pytest.mark.parametrize("word", ["", "total", "4", "agreed ", "is_ordered", "parse"])
def test_an_unknown_service_is_answered_with_the_known_ones(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        Service.parse(word)
    assert str(caught.value) == (
        f"unknown service {word!r}; known: unreliable, reliable, fifo, causal, agreed, safe"
    )
