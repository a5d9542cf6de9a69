"""The columns of a journal, stated once: on disk, over Flight and in Spark they are the same.

| kind | what the row is |
|---|---|
| message | a message of a group, as it was delivered |
| view | a group has new members from here on |
| signal | members of a group are lost; its next view says which |
| gap | what was sent between the row before and this one may be missing; `payload` says why, in JSON |
"""

import pyarrow as pa

MESSAGE = "message"
VIEW = "view"
SIGNAL = "signal"
GAP = "gap"

_NAMES = pa.list_(pa.field("element", pa.string()))
_TIME = pa.timestamp("us", tz="UTC")

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("kind", pa.string()),
        ("group", pa.string()),
        ("groups", _NAMES),
        ("sender", pa.string()),
        ("service", pa.string()),
        ("view", pa.string()),
        ("sequence", pa.int64()),
        ("sent", _TIME),
        ("delivered", _TIME),
        ("payload", pa.binary()),
        ("daemon", pa.int64()),
        ("incarnation", pa.int64()),
        ("session", pa.int64()),
        ("lts", pa.int64()),
        ("place", pa.int64()),
        ("tag", pa.int64()),
        ("members", _NAMES),
        ("transitional", _NAMES),
        ("changed", _NAMES),
        ("cause", pa.string()),
        ("batch", pa.string()),
    ]
)
"""Every column may be null: each kind of row fills those that mean something for it."""

COLUMN = {name: number for number, name in enumerate(SCHEMA.names)}
"""Where a column stands."""
