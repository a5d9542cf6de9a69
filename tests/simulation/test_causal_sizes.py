"""How large causal histories are, with separators and without (NAVTECH 4.4, figure 8); -s shows them.

Three sites, every two of them linked, with a daemon and six sessions each. One group is at all sites; each
site has two groups of its own, in which most is said. A daemon is the separator of its sessions: what was
said in these groups does not leave it.
"""

from random import Random
from statistics import fmean

import pytest
from small_worlds import Cluster

from antiphon.core.ordering.histories import Histories, _Past
from antiphon.service import Service
from antiphon.wire.bundle import Header
from antiphon.wire.history import history_of

SITES = 3
SESSIONS = 6
ROUNDS = 400
LOCAL_SHARE = 0.8


def timestamps(separates: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[int]]:
    """How many causes the messages to the common group had, and how many were kept for a session."""
    told: list[int] = []
    kept: list[int] = []
    with monkeypatch.context() as patch:
        look = Histories._put_together

        def put_together(histories: Histories, past: _Past) -> None:
            histories._is_alone = separates
            look(histories, past)
            kept.append(past.count())

        def sent(view_id: int, header: Header) -> None:
            history = history_of(header)
            if history is not None and b"common" in header.names:
                told.append(len(history.causes))

        patch.setattr(Histories, "_put_together", put_together)
        cluster = Cluster(SITES, delay_us=20_000, mesh=True)
        clients: list[tuple[int, int, str]] = []
        for site in range(SITES):
            for number in range(SESSIONS):
                client = cluster.client(site, f"c{site}x{number}")
                cluster.join(client, f"local{site}{number % 2}")
                if not number % 2:
                    cluster.join(client, "common")
                clients.append((site, number, client))
        cluster.run(2_000_000)
        for diary in cluster.diaries:
            patch.setattr(diary, "sent", sent)
        random = Random(8)
        for _ in range(ROUNDS):
            site, number, client = random.choice(clients)
            is_local = number % 2 or random.random() < LOCAL_SHARE
            group = f"local{site}{number % 2}" if is_local else "common"
            cluster.send(client, group, b"x", service=Service.CAUSAL)
            cluster.run(random.randrange(4_000))
    return told, kept


def test_separators_keep_what_is_local_out_of_timestamps(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {separates: timestamps(separates, monkeypatch) for separates in (True, False)}
    print("\ncauses                    told: mean  greatest   kept: mean  greatest")
    for separates, (told, kept) in sizes.items():
        words = "with separators" if separates else "without separators"
        print(f"{words:25} {fmean(told):10.2f} {max(told):9} {fmean(kept):12.2f} {max(kept):9}")
    assert fmean(sizes[True][0]) < fmean(sizes[False][0])
    assert fmean(sizes[True][1]) < fmean(sizes[False][1])
