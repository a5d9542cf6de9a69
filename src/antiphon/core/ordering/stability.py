"""The two lines that decide delivery and discard.

Follows: thesis 5.1. C[i] is the lts up to which everything from site i has come; HA[i] is the aru that site i
last announced. The agreed line is the smallest C, the stable line the smallest HA.
Deviation: the site stands in the last bits of an lts. Lamport's rule holds, no two bundles share an lts, and
one number is the whole place in the order, where the thesis breaks ties by site.
"""

from antiphon import limits

_SITE_BITS = (limits.SITES_MAX - 1).bit_length()


class Lines:
    """What each site is known to have sent and received, as lts values."""

    def __init__(self, sites: int, me: int) -> None:
        self.clock = 0
        """Lamport's: this site's next bundle is born with a greater lts."""
        self.agreed = 0
        """Every bundle with an lts up to this has come or has no receiver here."""
        self.stable = 0
        """Every bundle with an lts up to this is known to have come everywhere it had to."""
        self.stable_elsewhere = 0
        """The same, our own site not counted."""
        self.aru = 0
        """What this site announces: the agreed line, unless something holds it back."""
        self.held_below: int | None = None
        """While set, this site does not vouch for anything from this lts on."""
        self._me = me
        self._received = [0] * sites
        self._arus = [0] * sites

    def tick(self) -> int:
        """The lts of a new bundle of this site."""
        self.clock = ((self.clock >> _SITE_BITS) + 1 << _SITE_BITS) | self._me
        return self.clock

    def saw(self, lts: int) -> None:
        """A bundle or word of a bundle with this lts came in."""
        if lts > self.clock:
            self.clock = lts

    def claim(self, site: int, lts: int, aru: int) -> None:
        """Everything from `site` up to `lts` has come here; `site` has everything up to `aru`."""
        if lts > self._received[site]:
            self._received[site] = lts
        if aru > self._arus[site]:
            self._arus[site] = aru

    def advance(self) -> None:
        """Draw both lines again."""
        self._received[self._me] = self.clock
        self.agreed = min(self._received)
        aru = self.agreed
        if self.held_below is not None and aru >= self.held_below:
            aru = self.held_below - 1
        self.aru = self._arus[self._me] = max(aru, self.aru)
        self.stable = min(self._arus)
        others = [aru for site, aru in enumerate(self._arus) if site != self._me]
        self.stable_elsewhere = min(others, default=self.agreed)

    def slowest(self) -> tuple[int, int]:
        """The sites that hold back the agreed and the stable line."""
        return self._received.index(min(self._received)), self._arus.index(min(self._arus))
