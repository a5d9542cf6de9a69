"""The feed of an edge in a trace: what it asks its attachment for, and what it reads of control frames."""

from collections.abc import Callable

from antiphon.trace.records import Event, ViewNumber
from antiphon.types import ViewId
from antiphon.wire import edges

Note = Callable[..., None]
"""Puts an event at the edge, with its fields by their names, into the trace."""


class FeedNotes:
    """Notes what one process of an edge does with its feed."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._view = 0  # the daemon view to which the feed has come

    def asked(self, attachment: str, go: edges.Go) -> None:
        """It asks an attachment, the same as before or another one, for what follows a position."""
        view, place = (0, 0) if go.after is None else (go.after.view, go.after.place)
        self._note(Event.ATTACH, peer=attachment, daemon_view=view, place=place)

    def read(self, value: object) -> None:
        """It reads a control frame of the feed."""
        if isinstance(value, edges.Part):
            self._part(value.view)
        elif isinstance(value, edges.Reached):
            self._part(value.position.view)
        elif isinstance(value, edges.Gap):
            self._note(
                Event.GAP, groups=(value.group,), daemon_view=value.after.view, lts=value.after.place,
                place=value.until.place, reason=value.reason,
            )  # fmt: skip
        elif isinstance(value, edges.Base):
            self._part(value.position.view)
            self._note(
                Event.BASE, groups=(value.view.group,), views=(number_of(value.view.id),),
                daemon_view=value.position.view, place=value.position.place,
            )  # fmt: skip

    def _part(self, view: int) -> None:
        if view != self._view:
            self._view = view
            self._note(Event.PART, daemon_view=view)


def number_of(view: ViewId) -> ViewNumber:
    """A view's identifier as the trace has it."""
    return (view.epoch, view.branch, view.lts, view.daemon)
