"""Plots: what is written in them can be read."""

import re
from html import unescape

import pytest

from antiphon.plots.charts import bars


def labels(picture: str) -> list[str]:
    """The texts at the left of the rows."""
    return [unescape(text) for text in re.findall(r'<text[^>]*class="label"[^>]*>([^<]*)<', picture)]


@pytest.mark.parametrize("label", ["x" * length for length in range(1, 40)])
def test_a_label_that_has_room_is_whole(label: str) -> None:
    assert labels(bars("widths", [(label, 1.0)], "n", str, 900)) == [label]


def test_a_label_that_has_none_keeps_both_ends() -> None:
    (label,) = labels(bars("widths", [("#client-" + "7" * 90 + "#oslo", 1.0)], "n", str, 300))
    assert label.startswith("#cli") and label.endswith("oslo") and "…" in label
