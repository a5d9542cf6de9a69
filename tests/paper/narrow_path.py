"""A path that carries few bytes a second and drops the rest, as a policer does."""

from small_worlds import Cluster

BURST_S = 0.5


class Narrow:
    """What a cluster loses (`Cluster.lose`) on the way to one daemon."""

    def __init__(self, cluster: Cluster, *, to: int, bytes_per_s: int) -> None:
        self._cluster = cluster
        self._to = to
        self._bytes_per_s = bytes_per_s
        self._room_bytes = bytes_per_s * BURST_S
        self._filled_us = cluster.now_us

    def __call__(self, receiver: int, data: bytes) -> bool:
        if receiver != self._to or len(data) < 500:  # acknowledgements and signs of life have room
            return False
        gained_bytes = (self._cluster.now_us - self._filled_us) * self._bytes_per_s / 1e6
        self._filled_us = self._cluster.now_us
        self._room_bytes = min(self._bytes_per_s * BURST_S, self._room_bytes + gained_bytes)
        if len(data) > self._room_bytes:
            return True
        self._room_bytes -= len(data)
        return False
