"""The client library: sessions for asyncio (`connect`) and for threads (`blocking.connect`)."""

from antiphon.client import blocking
from antiphon.client._asyncio_calls import HeldLock
from antiphon.client._opening import ask_status
from antiphon.client.batches import BatchMemory
from antiphon.client.connecting import connect
from antiphon.client.events import Event, LockGone, LockGranted, NotSent, Reconnected, Sent
from antiphon.client.session import Session

__all__ = [
    "BatchMemory",
    "Event",
    "HeldLock",
    "LockGone",
    "LockGranted",
    "NotSent",
    "Reconnected",
    "Sent",
    "Session",
    "ask_status",
    "blocking",
    "connect",
]
