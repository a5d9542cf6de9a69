"""Antiphon: wide-area group communication for Python.

Processes join named groups; every message sent to a group reaches its members with the reliability, order
and stability that its sender asked for; every member sees joins, leaves, crashes, partitions and merges at
the same point of the stream.

    connect             a session with a daemon, for asyncio
    blocking.connect    the same for threads
    Service             the delivery levels
    Event               what a session delivers: Message View TransitionalSignal Left Reconnected
                        SlowReceiver NotSent LockChanged LockGranted LockGone Call Gap Unsure
    Tls                 how a session speaks TLS
    errors              every error that can be raised, in one tree
"""

from importlib.metadata import PackageNotFoundError, version

from antiphon import blocking, errors
from antiphon.calls import Answers, Call, CallId
from antiphon.client import (
    BatchMemory,
    Event,
    HeldLock,
    LockGone,
    LockGranted,
    NotSent,
    Reconnected,
    Sent,
    Session,
    Tls,
    Unsure,
    connect,
)
from antiphon.service import Service
from antiphon.types import (
    BatchStamp,
    Cause,
    Gap,
    Left,
    Lock,
    LockCause,
    LockChanged,
    Message,
    MessageId,
    SlowReceiver,
    Time,
    TransitionalSignal,
    View,
    ViewId,
)

try:
    __version__ = version("antiphon")
except PackageNotFoundError:  # a checkout on the path, not installed
    __version__ = "unknown"

__all__ = [
    "Answers",
    "BatchMemory",
    "BatchStamp",
    "Call",
    "CallId",
    "Cause",
    "Event",
    "Gap",
    "HeldLock",
    "Left",
    "Lock",
    "LockCause",
    "LockChanged",
    "LockGone",
    "LockGranted",
    "Message",
    "MessageId",
    "NotSent",
    "Reconnected",
    "Sent",
    "Service",
    "Session",
    "SlowReceiver",
    "Time",
    "Tls",
    "TransitionalSignal",
    "Unsure",
    "View",
    "ViewId",
    "__version__",
    "blocking",
    "connect",
    "errors",
]
