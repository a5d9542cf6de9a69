"""From the name of a cluster to places where its daemons listen.

An address may be `cluster:NAME`. Then daemons on this machine are tried first, by their unix sockets; if none
answers, all daemons in the LAN are asked by multicast, and those that answer are tried in the order of their
answers.
"""

import os
import select
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack

from antiphon import limits
from antiphon.config import check_listener
from antiphon.errors import BadPacket, ConfigError, ConnectError, UsageError
from antiphon.runtime import lan
from antiphon.runtime.discovery import local_places
from antiphon.types import check_name
from antiphon.wire import discovery as wire

PREFIX = "cluster:"
ASKED_AGAIN_S = 0.3
"""A question or its answers may get lost."""
SEARCH_MAX_S = 3.0
"""How long to wait for the first answer, unless the caller is less patient."""
MORE_S = 0.05
"""How long to wait for further answers after the first."""
PLACES_MAX = 16
"""Places that are tried; others are as good."""


def check_cluster(address: str) -> str | None:
    """An address if it names a cluster, checked; None if it is of another kind."""
    if not address.startswith(PREFIX):
        return None
    check_name(address.removeprefix(PREFIX), "cluster", limits.GROUP_NAME_MAX_BYTES)
    return address


def chosen_address(address: str | Sequence[str] | None, cluster: str | None) -> str | Sequence[str] | None:
    """The address that the arguments of `connect` mean."""
    if cluster is None:
        return address
    if address is not None:
        raise UsageError("give an address or a cluster, not both")
    return f"{PREFIX}{cluster}"


def found_places(places: Iterable[str], failures: list[str], timeout_s: float) -> Iterator[str]:
    """The places to try, in order; a cluster's are looked for when it is their turn. Why none was found is
    added to `failures`."""
    for place in places:
        if not place.startswith(PREFIX):
            yield place
            continue
        cluster = place.removeprefix(PREFIX)
        failures_before = len(failures)
        yield from local_places(cluster)
        del failures[failures_before:]  # sockets that daemons have left behind are no news
        try:
            yield from _ask(cluster, min(timeout_s, SEARCH_MAX_S))
        except ConnectError as error:
            failures.append(str(error))


def _ask(cluster: str, patience_s: float) -> list[str]:
    """Places of daemons that answer a multicast question; ConnectError if there are none."""
    group = wire.group_of(cluster)
    number = int.from_bytes(os.urandom(8), "big")
    question = wire.encode(wire.Question(cluster, number))
    found: list[str] = []
    with ExitStack() as stack:
        asking = []
        for interface in lan.interfaces():
            try:
                asking.append(stack.enter_context(lan.sender(interface)))
            except ConnectError:
                continue
        began_s = ask_s = time.monotonic()
        end_s = began_s + patience_s
        while (now_s := time.monotonic()) < end_s and len(found) < PLACES_MAX:
            if now_s >= ask_s and not found:
                ask_s = now_s + ASKED_AGAIN_S
                _multicast(asking, question, group)
            wait_s = max(0.0, min(end_s, ask_s if not found else end_s) - now_s)
            ready, _, _ = select.select(asking, (), (), wait_s)
            answers = [place for one in ready for place in _answers(one, cluster, number)]
            if answers and not found:
                end_s = min(end_s, time.monotonic() + MORE_S)
            found += [place for place in answers if place not in found]
    if not found:
        raise ConnectError(
            f"no daemon of cluster {cluster} answers at {group[0]}:{group[1]} within {patience_s:g} s: is "
            "one running in this LAN that lets other machines connect, and does multicast get through? An "
            "address helps: unix:PATH or tls:HOST:PORT"
        )
    return found[:PLACES_MAX]


def _multicast(asking: list[socket.socket], question: bytes, group: tuple[str, int]) -> None:
    for one in asking:
        try:
            one.sendto(question, group)
        except OSError:
            continue  # this interface leads nowhere


def _answers(source: socket.socket, cluster: str, number: int) -> Iterator[str]:
    """Places in what has come to a socket."""
    for _ in range(PLACES_MAX):
        try:
            data = source.recv(wire.PACKET_MAX_BYTES + 1)
            answer = wire.parse(data)
        except (OSError, BadPacket):
            return
        if not isinstance(answer, wire.Answer) or (answer.cluster, answer.question) != (cluster, number):
            continue
        for place in answer.places:
            try:
                if place.startswith(("tcp:", "tls:")):  # a unix socket of another machine is none of ours
                    yield check_listener(place)
            except ConfigError:
                continue
