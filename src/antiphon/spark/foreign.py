"""Options that are not ours: those that Spark adds to the options of a table, and Kafka's names for ours."""

from collections.abc import Mapping
from datetime import UTC, datetime
from difflib import get_close_matches

from antiphon.errors import UsageError

_OF_SPARK = {
    "checkpointlocation", "path", "queryname", "outputmode",
    "provider", "owner", "location", "comment", "collation", "external", "is_managed_location",
    "serialization.format", "transient_lastddltime",
}  # fmt: skip
"""What Spark hands to every source and sink, and what its catalogs keep with a table."""
_OF_TABLE = "option."
"""What is before the name of each option in the properties of a table that is being created."""

_SAME: dict[str, str] = {
    "startingoffsets": "start",
    "endingoffsets": "end",
    "startingtimestamp": "start",
    "endingtimestamp": "end",
    "maxoffsetspertrigger": "maxRowsPerTrigger",
    "subscribe": "groups",
    "topic": "group",
}
"""Options of Kafka's source and sink that mean what one of ours means, and which."""
_INSTEAD: dict[str, str] = {
    "kafka.bootstrap.servers": "give the option endpoint (a journal) to read, or address (a daemon) to write",
    "subscribepattern": "give the option groups, with commas between",
    "assign": "give the option groups, with commas between",
    "startingoffsetsbytimestamp": "give the option start, an offset or a time such as 2026-11-16T05:00:00Z",
    "endingoffsetsbytimestamp": "give the option end, an offset or a time such as 2026-11-16T05:00:00Z",
    "minpartitions": "give the option partitions, the most tasks of a batch",
    "maxrecordsperpartition": "give the options maxRowsPerTrigger and partitions",
    "minoffsetspertrigger": "give the query a trigger with a longer processingTime",
    "maxtriggerdelay": "give the query a trigger with a processingTime",
    "kafka.group.id": "leave it out: the checkpoint of a query knows how far it came",
    "groupidprefix": "leave it out: the checkpoint of a query knows how far it came",
    "includeheaders": "leave it out: every row has all the columns of the journal",
    "kafkaconsumer.polltimeoutms": "give the option timeoutSeconds",
    "fetchoffset.numretries": "give the option timeoutSeconds",
    "fetchoffset.retryintervalms": "give the option timeoutSeconds",
}
"""Other options of Kafka's source and sink, and what to do here."""


def is_table(options: Mapping[str, str]) -> bool:
    """Whether a table of a catalog is being created with these."""
    return "provider" in {name.lower() for name in options}


def ours(options: Mapping[str, str]) -> dict[str, str]:
    """The options that are for us, by their names in lower case.

    >>> ours({"provider": "antiphon", "owner": "ann", "option.Start": "5", "Start": "5", "cost": "high"})
    {'start': '5'}
    """
    given = {name.lower(): value for name, value in options.items()}
    if is_table(given):  # its other properties are the user's own, and not for the source
        begin = len(_OF_TABLE)
        given = {name[begin:]: value for name, value in given.items() if name.startswith(_OF_TABLE)}
    return {name: value for name, value in given.items() if name not in _OF_SPARK}


def translated(given: Mapping[str, str]) -> dict[str, str]:
    """The same options, those with Kafka's names under ours.

    >>> translated({"startingoffsets": "latest", "startingtimestamp": "1763272800000"})
    Traceback (most recent call last):
    ...
    antiphon.errors.UsageError: antiphon: startingTimestamp says the same as start; give one of them
    >>> translated({"endingtimestamp": "1763272800000", "topic": "tea"})
    {'end': '2025-11-16T06:00:00+00:00', 'group': 'tea'}
    """
    found = {name: value for name, value in given.items() if name not in _SAME}
    for name in _SAME:
        if name not in given:
            continue
        own = _SAME[name].lower()
        if own in found:
            raise UsageError(f"antiphon: {_spelled(name)} says the same as {_SAME[name]}; give one of them")
        found[own] = _value(name, given[name])
    return found


def _value(name: str, text: str) -> str:
    """What is given to an option of Kafka's, as ours takes it."""
    if name in ("startingtimestamp", "endingtimestamp"):
        try:
            return datetime.fromtimestamp(int(text) / 1_000, UTC).isoformat()
        except (ValueError, OverflowError, OSError):
            raise UsageError(f"antiphon: option {_spelled(name)}: {text!r} is no time in ms") from None
    if name in ("startingoffsets", "endingoffsets") and text.lstrip().startswith("{"):
        raise UsageError(
            f"antiphon: option {_spelled(name)}: a journal has no partitions; give the option {_SAME[name]}: "
            "earliest, latest, an offset, or a time such as 2026-11-16T05:00:00Z"
        )
    return text


def _spelled(name: str) -> str:
    """The name of an option of Kafka's as its documentation spells it.

    >>> _spelled("maxoffsetspertrigger")
    'maxOffsetsPerTrigger'
    """
    for word in ("offsets", "timestamp", "per", "trigger"):
        name = name.replace(word, word.capitalize())
    return name


def unknown(name: str, known: list[str]) -> UsageError:
    """What to say of an option that there is not."""
    told = f"antiphon: unknown option {name!r}; known are {', '.join(known)}"
    if name in _INSTEAD:
        return UsageError(f"{told}. Instead of this option of Kafka's, {_INSTEAD[name]}")
    if name.startswith("kafka."):
        return UsageError(f"{told}. This is no source of Kafka's")
    alike = get_close_matches(name, [one.lower() for one in known], 1)
    meant = [one for one in known if one.lower() in alike]
    return UsageError(f"{told}. Did you mean {meant[0]}?" if meant else told)
