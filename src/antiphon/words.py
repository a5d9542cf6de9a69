"""How things are said: durations, sizes, counts, and what a session delivers."""

from collections.abc import Iterable
from typing import Any

from antiphon.calls import Call
from antiphon.client import Event, LockGone, LockGranted, NotSent, Reconnected, Unsure
from antiphon.short_views import short_view
from antiphon.types import Gap, Left, LockChanged, Message, SlowReceiver, TransitionalSignal, View

_SECOND_US = 1_000_000


_CONTROLS = (
    *range(0x20),  # C0
    *range(0x7F, 0xA0),  # DEL and C1
    0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A),  # direction of text
    0x2028, 0x2029,  # ends of lines and paragraphs
    *range(0xD800, 0xE000),  # halves of characters, which cannot be printed at all
)  # fmt: skip
"""What a terminal obeys or what reorders a line, instead of being shown."""
_ESCAPES = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _CONTROLS}
_ESCAPES |= {ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}
_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in _CONTROLS}


def printable(text: str) -> str:
    r"""`text` from outside, for a terminal: every control character as an escape that shows which it was.

    >>> print(printable("tea\x1b[2J\u202e for two\n"))
    tea\x1b[2J\u202e for two\n
    """
    return text.translate(_ESCAPES)


def printable_json(text: str) -> str:
    r"""JSON text that says the same and has no control character, for a terminal.

    >>> print(printable_json('"\x9b2J"'))
    "\u009b2J"
    """
    return text.translate(_JSON_ESCAPES)


def printable_parts(value: Any) -> Any:
    r"""What JSON was decoded to, with every text in it `printable`.

    >>> printable_parts({"reason": ["\x07", 1]})
    {'reason': ['\\x07', 1]}
    """
    match value:
        case str():
            return printable(value)
        case dict():
            return {printable_parts(key): printable_parts(part) for key, part in value.items()}
        case list():
            return [printable_parts(part) for part in value]
        case _:
            return value


def duration(us: float) -> str:
    """A span of time with as many digits as a person wants.

    >>> duration(412), duration(40_088), duration(412_300), duration(2_640_000), duration(754_000_000)
    ('0.4 ms', '40 ms', '412 ms', '2.6 s', '13 min')
    """
    if us < 10_000:
        return f"{us / 1_000:.1f} ms"
    if us < _SECOND_US:
        return f"{us / 1_000:.0f} ms"
    seconds = us / _SECOND_US
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 2 * 3_600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"


def span(us: float) -> str:
    """A measured span of time, with three digits.

    >>> span(0), span(4), span(193), span(12_700), span(412_300), span(2_640_000), span(754_000_000)
    ('0 ms', '0.004 ms', '0.193 ms', '12.7 ms', '412 ms', '2.64 s', '12.6 min')
    """
    for unit_us, unit, most in ((1_000, "ms", 1_000), (_SECOND_US, "s", 120), (60 * _SECOND_US, "min", 120)):
        if abs(us) < unit_us * most * 0.9995:
            return f"{rounded(us / unit_us, 3)} {unit}"
    return f"{rounded(us / (3_600 * _SECOND_US), 3)} h"


def rounded(number: float, digits: int = 4) -> str:
    """A measured number without the digits that mean nothing.

    >>> rounded(1_457_123.4), rounded(980), rounded(12.3456), rounded(0.98), rounded(2.64159, 3)
    ('1,457,000', '980', '12.35', '0.98', '2.64')
    """
    value = float(f"{number:.{digits}g}")
    return f"{value:,.0f}" if value == round(value) else f"{value:,}"


def size(count: float) -> str:
    """A number of bytes.

    >>> size(312), size(3_150), size(5_000_000)
    ('312 bytes', '3.1 KiB', '4.8 MiB')
    """
    if count < 1_024:
        return f"{count:.0f} bytes"
    for unit in ("KiB", "MiB"):
        count /= 1_024
        if count < 1_024:
            return f"{count:.1f} {unit}"
    return f"{count / 1_024:.1f} GiB"


def counted(count: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "bundle"), counted(1_200, "bundle")
    ('1 bundle', '1,200 bundles')
    """
    return f"{count:,} {noun}" + ("s" if count != 1 else "")


def listed(names: Iterable[str], none: str = "nobody") -> str:
    """Names with commas between them."""
    return ", ".join(names) or none


def described(event: Event) -> str:
    """An event in one line."""
    match event:
        case Message():
            text = event.payload.decode("utf-8", "backslashreplace")
            return f"{','.join(event.groups)} {event.sender} {event.service.name.lower()}: {text}"
        case View():
            return (
                f"{event.group} view {short_view(event.id)} ({event.cause.value}: {listed(event.changed)}): "
                f"{listed(event.members)}{receivers_of(event)}{quorum_of(event)}"
            )
        case TransitionalSignal():
            return f"{event.group} signal: some members of view {short_view(event.id)} cannot be reached"
        case Left():
            return f"{event.group} left (view {short_view(event.id)})"
        case Reconnected():
            return f"reconnected: {returned(event)}"
        case SlowReceiver():
            return f"slow: {lagging(event)}"
        case NotSent():
            return f"not sent: {unsent(event)}"
        case Unsure():
            return f"unsure: {unsure(event)}"
        case Gap():
            return f"{event.group} gap: {missed(event)}"
        case Call():
            text = event.payload.decode("utf-8", "backslashreplace")
            mine = ", to be answered by this session" if event.is_mine else ""
            return f"{event.group} {event.sender} call {event.id} (handler {event.handler}{mine}): {text}"
        case LockChanged():
            lock = event.lock
            holder = f"{lock.holder} holds it, fence {lock.fence}" if lock.holder else "not held"
            waiting = f"; waiting: {listed(lock.waiting)}" if lock.waiting else ""
            return f"{event.group} lock {lock.name} ({event.cause.value}: {event.session}): {holder}{waiting}"
        case LockGranted():
            return f"{event.group} lock {event.name}: this session holds it, fence {event.fence}"
        case LockGone():
            return f"{event.group} lock {event.name}: lost ({event.reason})"


def quorum_of(view: View) -> str:
    """What is to be said of the quorum of a view: nothing, if there is one or nobody wishes it."""
    if view.has_quorum:
        return ""
    return "; deciding on the quorum" if view.is_deciding else "; no quorum: sends are refused"


def receivers_of(view: View) -> str:
    """What is to be said of those who get a group's messages at edges."""
    return f" and about {counted(view.receivers, 'receiver')} at edges" if view.receivers else ""


def missed(event: Gap) -> str:
    """A gap, with what it means for the reader.

    >>> missed(Gap("ticks", None, 0, 0, "d2 has kept nothing so old"))
    'messages may be missing here (d2 has kept nothing so old)'
    """
    since = f" since view {short_view(event.after)}" if event.after is not None else ""
    return f"messages may be missing here{since} ({event.reason})"


def unsure(event: Unsure) -> str:
    """Messages of unknown fate, with what it means for the reader.

    >>> unsure(Unsure((), 2, 7, 8))
    '2 messages may or may not have been sent: the edge lost its attachment'
    """
    return f"{counted(event.count, 'message')} may or may not have been sent: the edge lost its attachment"


def unsent(event: NotSent) -> str:
    """Messages that came back, with what it means for the reader.

    >>> unsent(NotSent("bank", (), 2))
    '2 messages to bank, which has no quorum'
    """
    return f"{counted(event.count, 'message')} to {event.group}, which has no quorum"


def returned(event: Reconnected) -> str:
    """A return, with what it means for the reader."""
    parts = [f"{event.old_name} is now {event.name} ({event.reason})"]
    if event.groups:
        parts.append(f"joining again: {listed(event.groups)}")
    if event.unknown_fate:
        parts.append(f"{counted(event.unknown_fate, 'sent message')} of unknown fate")
    return "; ".join(parts)


def lagging(event: SlowReceiver) -> str:
    """That this session does not keep up, or does again, with what it means for the reader.

    >>> lagging(SlowReceiver(9_000_000, 8_388_608, 100_663_296, "drop-unreliable"))
    'this session reads too slowly: 8.6 MiB wait for it; it is disconnected at 96.0 MiB'
    >>> lagging(SlowReceiver(4_000_000, 8_388_608, 100_663_296, "drop-unreliable", 7, is_over=True))
    'this session keeps up again; 7 unreliable messages were dropped so far'
    """
    if event.is_over:
        words = "this session keeps up again"
    else:
        words = f"this session reads too slowly: {size(event.waiting_bytes)} wait for it; "
        words += f"it is disconnected at {size(event.hard_bytes)}"
    if event.dropped_messages:
        words += f"; {counted(event.dropped_messages, 'unreliable message')} were dropped so far"
    return words
