"""The client library for programs without an event loop: `antiphon.blocking.connect()`."""

from antiphon.client._threaded_calls import HeldLock
from antiphon.client.blocking import Session, connect

__all__ = ["HeldLock", "Session", "connect"]
