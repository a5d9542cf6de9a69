"""The client library: sessions for asyncio (`connect`) and for threads (`blocking.connect`)."""

from antiphon.client import blocking
from antiphon.client._opening import ask_status
from antiphon.client.batches import BatchMemory
from antiphon.client.connecting import connect
from antiphon.client.events import Event, NotSent, Reconnected, Sent
from antiphon.client.session import Session

__all__ = [
    "BatchMemory",
    "Event",
    "NotSent",
    "Reconnected",
    "Sent",
    "Session",
    "ask_status",
    "blocking",
    "connect",
]
