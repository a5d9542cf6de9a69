"""The loads of NAVTECH's figure 11, in virtual time: what each order costs.

The text has no table of the nine scenarios; these are ours. Five sites: A, B and C are near one another, and
so are D and E; from one of the first to one of the second the way is long. A site with high load sends a
hundred times as often as one with low load. All times are a fifth of NAVTECH's (there 20 ms, 540 ms, 100 and
1 messages/s), because daemons that hear from each other after more than a second do not stay in one view
without settings for it. `token-site` is the adaptive order with A as the only active site for good: it keeps
the same promises.
"""

import heapq
from collections.abc import Mapping
from random import Random

import pytest
from small_worlds import Cluster

from antiphon.core.ordering.deciding import Decider, Decision
from antiphon.core.ordering.role_changes import RoleChanges
from antiphon.core.ordering.told import Reason, Wish
from antiphon.types import Message

NEAR_US, FAR_US = 4_000, 108_000
HIGH_US, LOW_US = 2_000, 200_000
WARM_US, MEASURED_US = 6_000_000, 1_000_000
LOADS = ("A", "AB", "ABC", "AD", "ABD", "ABCD", "ABCDE", "D", "")


class TwoContinents(Cluster):
    """A, B, C and D, E."""

    def delay_between(self, sender: int, receiver: int) -> int:
        return delay_us(sender, receiver)


def delay_us(sender: int, receiver: int) -> int:
    if sender == receiver:
        return 0
    return NEAR_US if (sender < 3) == (receiver < 3) else FAR_US


class TokenSite(Decider):
    """A is active for good, and all others are passive."""

    def decide(
        self, is_active: bool, sequencer: int | None, delays_us: Mapping[int, int], now_us: int
    ) -> Decision | None:
        self.due_us = None
        return Decision(Wish.PASSIVE, 0, Reason.RARE) if is_active and 0 in delays_us else None


def measured_ms(load: str, order: str, is_poisson: bool, measured_us: int = MEASURED_US) -> float:
    """The mean latency of all messages at all sites."""
    decider = TokenSite if order == "token-site" else Decider
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RoleChanges, "make_decider", decider)
        return _measured_ms(
            load, "symmetric" if order == "symmetric" else "adaptive", is_poisson, measured_us
        )


def _measured_ms(load: str, order: str, is_poisson: bool, measured_us: int) -> float:
    cluster = TwoContinents(5, mesh=True, order=order, membership="wan")
    clients = cluster.members()
    random = Random(f"{load} {is_poisson}")
    intervals = [HIGH_US if site in load else LOW_US for site in "ABCDE"]
    begin_us = cluster.now_us
    due = [(begin_us + random.randrange(interval), site) for site, interval in enumerate(intervals)]
    heapq.heapify(due)
    sent: dict[bytes, int] = {}
    while due[0][0] < begin_us + WARM_US + measured_us:
        at_us, site = heapq.heappop(due)
        cluster.run(at_us - cluster.now_us)
        name = b"%d %d" % (site, at_us)
        if at_us >= begin_us + WARM_US:
            sent[name] = at_us
        cluster.send(clients[site], "g", name)
        pause_us = random.expovariate(1) if is_poisson else random.uniform(0.9, 1.1)
        heapq.heappush(due, (at_us + 1 + int(intervals[site] * pause_us), site))
        cluster.crossed.clear()
    cluster.run(2_000_000)
    took_us = []
    for client in clients:
        for event, time_us in zip(cluster.events[client], cluster.times[client], strict=True):
            if isinstance(event, Message) and event.payload in sent:
                took_us.append(time_us - sent[event.payload])
    assert len(took_us) == 5 * len(sent)
    return sum(took_us) / len(took_us) / 1_000


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("is_poisson", [False, True], ids=["quasi-periodic", "poisson"])
def test_what_the_loads_of_figure_11_cost(is_poisson: bool):
    """The hybrid protocol outperforms the two other protocols.

    NAVTECH 5.4, figure 11. Deviation: our symmetric order is never slower than 2D + delta, because idle sites
    announce themselves, where NAVTECH's waits for their next message.
    """
    print("\nload    symmetric  token-site    adaptive")
    for load in LOADS:
        orders = ("symmetric", "token-site", "adaptive")
        symmetric_ms, token_site_ms, adaptive_ms = (measured_ms(load, one, is_poisson) for one in orders)
        print(f"{load or '-':6} {symmetric_ms:8.0f} ms {token_site_ms:8.0f} ms {adaptive_ms:8.0f} ms")
        assert adaptive_ms <= 1.02 * min(symmetric_ms, token_site_ms), load
