"""The verb `listen`: join groups and print what is delivered."""

from base64 import b64encode
from typing import Annotated, Any

import msgspec
import typer
from msgspec import structs

import antiphon.blocking
from antiphon.cli.options import Address, Json, Name, Reconnect, SlowWord, TraceFolder, slow_policy
from antiphon.cli.screen import joining, show
from antiphon.client import Event, NotSent, Reconnected
from antiphon.types import Left, Message, SlowReceiver, TransitionalSignal, View
from antiphon.words import described


def listen(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...", help="The groups to join.")],
    json: Json = False,
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", min=1, help="End after this many messages.")
    ] = None,
    address: Address = None,
    name: Name = "",
    reconnect: Reconnect = False,
    slow: SlowWord = None,
    trace: TraceFolder = None,
) -> None:
    """Join each GROUP and print messages, views and signals in the order of their delivery, until Ctrl-C.

    On a terminal, control characters in what others sent are shown as escapes; a pipe gets them as they are.

    \b
    Example:
      antiphon listen chat news --json --count 10
    """
    left = count
    with antiphon.blocking.connect(
        address, name=name, slow=slow_policy(slow), reconnect=reconnect, trace=trace
    ) as session:
        for group in groups:
            with joining(group):
                session.join(group)
        for event in session:
            show(as_json(event) if json else described(event), is_json=json)
            if left is not None and isinstance(event, Message):
                left -= 1
                if left == 0:
                    return


def as_json(event: Event) -> str:
    """One JSON object; a payload that is not UTF-8 comes as `payload_base64` instead of `payload`."""
    return msgspec.json.encode(_fields(event)).decode()


def _fields(event: Event) -> dict[str, Any]:
    match event:
        case Message():
            fields = {
                "event": "message",
                "groups": event.groups,
                "sender": event.sender,
                "service": event.service.name.lower(),
                "tag": event.tag,
                "id": str(event.id),
                "sent_us": event.sent_us,
            }
            try:
                fields["payload"] = event.payload.decode("utf-8")
            except UnicodeDecodeError:
                fields["payload_base64"] = b64encode(event.payload).decode()
            return fields
        case View():
            return {
                "event": "view",
                "group": event.group,
                "id": str(event.id),
                "members": event.members,
                "transitional": event.transitional,
                "cause": event.cause.value,
                "changed": event.changed,
                "has_quorum": event.has_quorum,
                "locks": [structs.asdict(lock) for lock in event.locks],
            }
        case TransitionalSignal():
            return {"event": "signal", "group": event.group, "id": str(event.id)}
        case Left():
            return {"event": "left", "group": event.group, "id": str(event.id)}
        case Reconnected():
            return {
                "event": "reconnected",
                "old_name": event.old_name,
                "name": event.name,
                "daemon": event.daemon,
                "address": event.address,
                "groups": event.groups,
                "reason": event.reason,
                "unknown_fate": event.unknown_fate,
            }
        case SlowReceiver():
            return {"event": "slow", **structs.asdict(event)}
        case NotSent():
            return {"event": "not-sent", "group": event.group, "count": event.count}
