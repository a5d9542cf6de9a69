"""The mean of samples that follows them only when they have shifted for good."""

from antiphon.core.ordering.mean_shift import MeanShift


def test_the_first_samples_make_the_mean():
    detector = MeanShift(samples=7)
    for sample in range(1, 7):
        detector.add(sample)
        assert detector.mean is None
    detector.add(7)
    assert detector.mean == 4


def test_a_run_on_one_side_makes_a_new_mean_and_less_does_not():
    detector = MeanShift(samples=3)
    for sample in (10, 10, 10, 20, 20, 5, 20, 20):
        detector.add(sample)
    assert detector.mean == 10
    detector.add(20)
    assert detector.mean == 20


def test_silence_counts_as_samples():
    detector = MeanShift(samples=3)
    assert detector.with_unfinished(50) == 50
    for sample in (10, 10, 10):
        detector.add(sample)
    assert detector.with_unfinished(30) == 10
    assert detector.with_unfinished(31) == 31
    assert detector.reaches(12) == 31
    assert detector.reaches(100) == 101
    assert detector.reaches(9) == 0
