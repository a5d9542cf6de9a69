"""Clusters in which every two sites are joined, and what is told of them."""

from small_worlds import Cluster

DELAY_US = 1_000


def world(sites: int, **options: object) -> Cluster:
    """Every two sites joined, a LAN's timing and delay."""
    wanted: dict[str, object] = {"mesh": True, "membership": "lan", **options}
    return Cluster(sites, DELAY_US, **wanted)  # type: ignore[arg-type]


def with_members(sites: int, **options: object) -> tuple[Cluster, list[str]]:
    """And a member of group g at each, whose joins are forgotten."""
    cluster = world(sites, **options)
    clients = cluster.members()
    forget(cluster)
    return cluster, clients


def forget(cluster: Cluster) -> None:
    """Let the story begin here."""
    for name in cluster.events:
        cluster.events[name].clear()
        cluster.times[name].clear()
    cluster.crossed.clear()


def torn_into(cluster: Cluster, *parts: set[int]) -> None:
    """All lose the view at once; then those of each part find each other."""
    cluster.partition(*parts)
    cluster.lose_view()
    cluster.settle(*parts)


def states_since(cluster: Cluster, daemon: int, mark: int) -> list[tuple[str, str]]:
    """(state, reason) that a daemon's membership entered after so many entries of its diary."""
    return [entry[1:3] for entry in cluster.diaries[daemon].entries[mark:] if entry[0] == "entered"]  # type: ignore[misc]


def marks(cluster: Cluster) -> list[int]:
    """How many entries each diary has."""
    return [len(diary.entries) for diary in cluster.diaries]
