"""What a receiver counts."""

from collections.abc import Sequence

from antiphon.load.plan import Received, percentile


class Tally:
    """Counts what arrives, bundle by bundle."""

    def __init__(self) -> None:
        self._messages = 0
        self._payload_bytes = 0
        self._first_us = 0
        self._last_us = 0
        self._latencies: list[tuple[int, int]] = []
        """Latency and number of messages of each bundle."""

    def count(self, lengths: Sequence[int], latency_us: int, now_us: int) -> None:
        """Messages of these lengths have come, after so long."""
        self._messages += len(lengths)
        self._payload_bytes += sum(lengths)
        self._latencies.append((latency_us, len(lengths)))
        self._first_us = self._first_us or now_us
        self._last_us = now_us

    def report(self) -> Received:
        steady = sorted(self._latencies[len(self._latencies) // 10 :])  # the first tenth warms caches up
        seconds = (self._last_us - self._first_us) / 1e6
        p50_us, p99_us = percentile(steady, 0.5), percentile(steady, 0.99)
        return Received(self._messages, self._payload_bytes, seconds, p50_us, p99_us)
