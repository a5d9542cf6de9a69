"""A mean that follows its samples only when they have shifted for good.

Follows: NAVTECH 5.4: the first k samples make a mean; a run of k samples that are all above it, or all below
it, makes a new one. Single samples change nothing.
Deviation: a sample that is still under way counts, too. When the time since the last message is k times the
mean, it stands for k samples above it: a source that falls silent sends no message that could say so.
Checked by: tests/unit/test_mean_shift.py.
"""

from antiphon import limits


class MeanShift:
    """The mean time between the messages of one source.

    >>> detector = MeanShift(samples=2)
    >>> for sample in (10, 10, 40, 10, 40, 60):
    ...     detector.add(sample)
    >>> detector.mean
    50
    """

    def __init__(self, samples: int = limits.ROLE_SAMPLES) -> None:
        self._samples = samples
        self._first: list[int] = []  # until there is a mean
        self._run: list[int] = []  # the last samples, all on one side of it
        self.mean: int | None = None
        """None until there were enough samples."""

    def add(self, sample: int) -> None:
        """One more sample is known."""
        if self.mean is None:
            self._first.append(sample)
            if len(self._first) == self._samples:
                self.mean = sum(self._first) // self._samples
            return
        if self._run and (self._run[0] > self.mean) != (sample > self.mean):
            self._run.clear()
        if sample == self.mean:
            return
        self._run.append(sample)
        if len(self._run) == self._samples:
            self.mean = sum(self._run) // self._samples
            self._run.clear()

    def with_unfinished(self, sample: int) -> int:
        """The mean, given that the next sample is at least this."""
        if self.mean is None:
            return (sum(self._first) + sample) // (len(self._first) + 1)
        return sample if sample > self._samples * self.mean else self.mean

    def reaches(self, bound: int) -> int:
        """From which unfinished sample on `with_unfinished` is greater than `bound`; 0 if it already is."""
        if self.mean is None:
            return max(0, (bound + 1) * (len(self._first) + 1) - sum(self._first))
        return 0 if self.mean > bound else max(bound, self._samples * self.mean) + 1
