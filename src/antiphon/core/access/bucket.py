"""How much of something may pass in a time: a bucket that fills at a steady rate.

Follows: the token bucket of RFC 2697 with one rate and one burst. Deviation: what has been read from a socket
cannot be given back, so the bucket may owe something; nothing passes until that is paid.
"""

BURST_US = 1_000_000
"""Somebody who was idle may take at once what comes in so long a time."""


class Bucket:
    """Lets `rate_per_s` pass.

    >>> bucket = Bucket(1_000, now_us=0)
    >>> bucket.take(1_500, now_us=0), bucket.room(0), bucket.free_us(0)
    (None, 0, 500000)
    >>> bucket.room(600_000)
    100
    """

    def __init__(self, rate_per_s: int, now_us: int) -> None:
        self.rate_per_s = rate_per_s
        self._empty_us = now_us - BURST_US
        """When the bucket was, or will be, empty: it has what has come in since."""

    def room(self, now_us: int) -> int:
        """How much may pass now."""
        return max(0, min(now_us - self._empty_us, BURST_US)) * self.rate_per_s // 1_000_000

    def take(self, amount: int, now_us: int) -> None:
        """So much has passed."""
        self._empty_us = max(self._empty_us, now_us - BURST_US) + amount * 1_000_000 // self.rate_per_s

    def free_us(self, now_us: int) -> int:
        """When something may pass: `now_us`, or later."""
        return max(now_us, self._empty_us)
