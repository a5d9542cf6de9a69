"""The client library: sessions for asyncio (`connect`) and for threads (`blocking.connect`)."""

from antiphon.client import blocking
from antiphon.client._asyncio_calls import HeldLock
from antiphon.client._opening import DEFAULT_ADDRESS, ask_reload, ask_status
from antiphon.client.batches import BatchMemory
from antiphon.client.connecting import connect
from antiphon.client.events import Event, LockGone, LockGranted, NotSent, Reconnected, Sent, Unsure
from antiphon.client.session import Session
from antiphon.runtime.tls import Tls

__all__ = [
    "DEFAULT_ADDRESS",
    "BatchMemory",
    "Event",
    "HeldLock",
    "LockGone",
    "LockGranted",
    "NotSent",
    "Reconnected",
    "Sent",
    "Session",
    "Tls",
    "Unsure",
    "ask_reload",
    "ask_status",
    "blocking",
    "connect",
]
