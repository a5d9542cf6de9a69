"""Options that several verbs share, so that one thing has one name everywhere."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from antiphon.errors import UsageError
from antiphon.service import Service
from antiphon.types import HANDLERS_MAX, PRIORITY_WORDS, SLOW_POLICIES, Choice, SlowPolicy, check_delivery


def among(words: Iterable[str]) -> Callable[[str], list[str]]:
    """How a shell completes a value that is one of `words`."""
    known = tuple(words)

    def begun(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return begun


Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        envvar="ANTIPHON",
        help="Where the daemon listens: unix:PATH, tls:HOST:PORT or tcp:HOST:PORT, or several with commas "
        "between, tried in order. Without it: unix:/tmp/antiphon.sock.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="Find a daemon of this cluster, on this machine or in its LAN; takes precedence over ADDRESS.",
    ),
]
Reconnect = Annotated[
    bool,
    typer.Option(
        "--reconnect", help="When the daemon is lost, connect to the next address, or again to the same."
    ),
]
Handler = Annotated[
    int,
    typer.Option(
        "--handler", metavar="N", min=0, max=HANDLERS_MAX - 1, help="The handler to call; its holder answers."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line, for programs.")]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="URL of a Spark cluster; default: run on this machine."),
]
Name = Annotated[
    str, typer.Option("--name", metavar="NAME", help="Name of the session; default: chosen by the daemon.")
]
ServiceWord = Annotated[
    str,
    typer.Option(
        "--service",
        metavar="SERVICE",
        help="Delivery level: unreliable, reliable, fifo, causal, agreed or safe.",
        autocompletion=among(service.name.lower() for service in Service),
    ),
]
PriorityWord = Annotated[
    str,
    typer.Option(
        "--priority",
        metavar="PRIORITY",
        help="low, medium, high or 0 to 9; in a queue, higher priorities go first.",
        autocompletion=among(PRIORITY_WORDS),
    ),
]
SlowWord = Annotated[
    str | None,
    typer.Option(
        "--slow",
        metavar="POLICY",
        help="If this session reads too slowly: disconnect or drop-unreliable; default: as configured.",
        autocompletion=among(SLOW_POLICIES),
    ),
]
DeliveryWord = Annotated[
    str | None,
    typer.Option(
        "--delivery",
        metavar="CHOICE",
        help="Weaker order than senders ask for, with lower latency: agreed, fifo or arrival.",
        autocompletion=among(get_args(Choice)),
    ),
]
TraceFolder = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="DIR",
        envvar="ANTIPHON_TRACE",
        help="Write a trace to a file in this folder, for `antiphon check` and `antiphon report`.",
    ),
]


def address_of(address: str | None, cluster: str | None) -> str | None:
    """What `--address` and `--cluster` mean together: a cluster that is named counts, because an address may
    come from the environment."""
    return address if cluster is None else f"cluster:{cluster}"


def slow_policy(word: str | None) -> SlowPolicy | None:
    """What `--slow` says, or a UsageError."""
    for policy in SLOW_POLICIES:
        if word == policy:
            return policy
    if word is not None:
        raise UsageError(f"unknown policy {word!r}; known: {', '.join(SLOW_POLICIES)}")
    return None


def choice(word: str | None) -> Choice | None:
    """What `--delivery` says, or a UsageError."""
    check_delivery(cast(Choice, word))
    return cast(Choice, word)


def read_file(path: Path, errors: str = "strict") -> str:
    """The text of a file that the user named, or a UsageError. `errors`: as in Python's open."""
    try:
        return path.read_text(encoding="utf-8", errors=errors)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(f"cannot read {path}: {reason}") from None


def make_folder(path: Path) -> None:
    """Make a folder that the user named, and those above it, if they are not there; or a UsageError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {path}: {error.strerror}") from None


def look_for_traces(folder: str) -> None:
    """Refuse a folder on this machine that has no traces, before Spark is started for it."""
    if "://" in folder:
        return
    path = Path(folder)
    if not path.is_dir():
        raise UsageError(f"there is no folder {path}")
    if not (path / "events").is_dir() and next(path.rglob("*.jsonl"), None) is None:
        raise UsageError(f"no traces in {path}: expected files that end in .jsonl, or a folder events")
