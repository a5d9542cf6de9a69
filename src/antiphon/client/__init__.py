"""The client library: sessions for asyncio (`connect`) and for threads (`blocking.connect`)."""

from antiphon.client import blocking
from antiphon.client._incoming import Event
from antiphon.client._opening import ask_status
from antiphon.client.connecting import connect
from antiphon.client.session import Session

__all__ = ["Event", "Session", "ask_status", "blocking", "connect"]
