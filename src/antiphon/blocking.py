"""The client library for programs without an event loop: `antiphon.blocking.connect()`."""

from antiphon.client.blocking import Session, connect

__all__ = ["Session", "connect"]
