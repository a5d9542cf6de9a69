"""Messages that a session gave to its daemon and that the daemon did not send."""

from antiphon.trace.records import Event, Identity, Record


def take_back(records: list[Record]) -> None:
    """Let the records of messages that daemons refused say so: they count as never sent."""
    refused: set[Identity] = set()
    for record in records:
        if record.event is Event.UNSENT and record.message is not None and not record.process:
            daemon, incarnation, session, first = record.message
            refused.update((daemon, incarnation, session, first + at) for at in range(record.count))
    if refused:
        for record in records:
            if record.event is Event.SEND and record.message in refused:
                record.event = Event.UNSENT
