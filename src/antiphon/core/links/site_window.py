"""The window of one member of a token-site segment: how many of its packets may be under way.

Follows: RMP 4.6, after Van Jacobson: the window grows by a packet for each that is acknowledged (slow start),
and beyond the threshold by one a window; a request for a lost packet is a sign of congestion and halves it.
Deviations:
- RMP remembers the last three packets that were lost, so that several requests for one of them halve the
  window once. Here nothing that was sent before the last decrease counts again: the losses of one overrun are
  many packets, and would halve the window as many times
- the unit is a packet, since the packets of a site have one size (figure 4.2 of RMP chooses it by the window)
- no timer halves the window: what is not acknowledged is asked for by the next token site
Checked by: tests/unit/test_site_window.py.
"""

from antiphon import limits


class SiteWindow:
    """The congestion window of one sender, in packets."""

    def __init__(self) -> None:
        self.packets: float = limits.SITE_WINDOW_START_PACKETS
        self.sent = 0
        """The number of the newest packet that was sent."""
        self.acknowledged = 0
        """Packets up to this number have been acknowledged by a token site."""
        self.halvings = 0
        self._threshold: float = limits.SITE_WINDOW_MAX_PACKETS
        self._counted = 0  # losses of packets up to this one have been answered

    @property
    def in_flight(self) -> int:
        """Packets that no token site has acknowledged."""
        return self.sent - self.acknowledged

    @property
    def room(self) -> int:
        """How many packets may be sent now."""
        return max(0, int(self.packets) - self.in_flight)

    def acknowledge(self, number: int) -> None:
        """A token site has everything up to this packet."""
        news = number - self.acknowledged
        if news <= 0:
            return
        if self.in_flight * 2 >= self.packets:  # it was used: otherwise nothing is known of a larger one
            grown = self.packets + (news if self.packets < self._threshold else news / self.packets)
            self.packets = min(grown, limits.SITE_WINDOW_MAX_PACKETS)
        self.acknowledged = number

    def lost(self, number: int) -> bool:
        """A member lacks this packet; whether the window was halved because of that."""
        if number <= self._counted:
            return False
        self._counted = self.sent
        self._threshold = self.packets = max(limits.SITE_WINDOW_MIN_PACKETS, self.packets / 2)
        self.halvings += 1
        return True
