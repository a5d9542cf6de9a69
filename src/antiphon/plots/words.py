"""Numbers as people read them: durations, counts, shares, sizes."""

from collections.abc import Callable

Format = Callable[[float], str]
"""How a number is written on an axis or in a table."""

_SECOND_US = 1_000_000


def duration(us: float) -> str:
    """A span of time with two or three digits.

    >>> duration(0), duration(412), duration(4_120), duration(40_088), duration(412_300), duration(2_640_000)
    ('0 ms', '0.41 ms', '4.1 ms', '40 ms', '412 ms', '2.6 s')
    >>> duration(30_000_000), duration(754_000_000), duration(40_000_000_000), duration(-1_500)
    ('30 s', '13 min', '11 h', '-1.5 ms')
    """
    if us < 0:
        return "-" + duration(-us)
    if us == 0:
        return "0 ms"
    if us < _SECOND_US:
        return _digits(us / 1_000) + " ms"
    seconds = us / _SECOND_US
    if seconds < 120:
        return _digits(seconds) + " s"
    if seconds < 2 * 3_600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.0f} h"


def _digits(value: float) -> str:
    """Two digits that count, and never an exponent."""
    if value >= 9.95:
        return f"{value:.0f}"
    text = f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(number: float) -> str:
    """How many: whole as long as that is short.

    >>> count(7), count(1_234), count(25_000), count(2_500_000), count(0.25)
    ('7', '1,234', '25,000', '2.5 M', '0.25')
    """
    if number >= 1_000_000_000:
        return f"{_digits(number / 1_000_000_000)} G"
    if number >= 1_000_000:
        return f"{_digits(number / 1_000_000)} M"
    return f"{number:,.0f}" if number == round(number) or number >= 100 else _digits(number)


def short_count(number: float) -> str:
    """A count, short enough for a cell.

    >>> short_count(12), short_count(1_234), short_count(56_000), short_count(3_400_000)
    ('12', '1.2k', '56k', '3.4 M')
    """
    if number < 1_000 or number >= 1_000_000:
        return count(number)
    return f"{number / 1_000:.1f}k" if number < 9_950 else f"{number / 1_000:.0f}k"


def share(part: float) -> str:
    """A part of a whole.

    >>> share(0), share(0.0004), share(0.052), share(0.5)
    ('0 %', '0.04 %', '5.2 %', '50 %')
    """
    return f"{_digits(100 * part)} %" if part else "0 %"


def size(byte_count: float) -> str:
    """A number of bytes; a kilobyte has a thousand.

    >>> size(312), size(3_150), size(5_000_000), size(7.2e9)
    ('312 B', '3.1 kB', '5 MB', '7.2 GB')
    """
    for unit in ("B", "kB", "MB"):
        if byte_count < 999.5:
            return f"{_digits(byte_count)} {unit}" if unit != "B" else f"{byte_count:.0f} B"
        byte_count /= 1_000
    return f"{_digits(byte_count)} GB"
