"""The `antiphon` command: its verbs, its exit codes, and how it says that something is wrong.

Exit codes: 0 fine, 1 found a fault, 2 wrong use, 130 interrupted. Whatever the user can mend is one line on
stderr; `--debug` shows the traceback as well.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import version
from types import FrameType
from typing import Annotated, NoReturn

import typer

from antiphon.cli import (
    bench,
    call,
    campaign,
    chat,
    check,
    config,
    daemon,
    demo,
    explain,
    flood,
    import_spread,
    ingest,
    journal,
    lab,
    listen,
    lock,
    peers,
    report,
    send,
    serve,
    simulate,
    status,
)
from antiphon.errors import AntiphonError, ConfigError, UsageError
from antiphon.words import printable

EXIT_FAULT = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_TERMINATED = 128 + signal.SIGTERM

app = typer.Typer(
    name="antiphon",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_ParserError: type[Exception] = next(
    base for base in reversed(typer.BadParameter.__mro__) if hasattr(base, "format_message")
)
"""What the option parser raises for words that it cannot use."""


def _needs_verb(context: typer.Context) -> None:
    """Without a verb there is nothing to do: show which there are. That is wrong use."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(EXIT_USAGE)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"antiphon {version('antiphon')}")
        raise typer.Exit(0)


@app.callback()
def options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error, too.")] = False,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Wide-area group communication: ordered, reliable messages between processes at many sites.

    \b
    Example: see the whole of it in a minute
      antiphon demo --seconds 60
    """
    _needs_verb(context)


_VERBS: dict[str, Callable[..., None]] = {
    "demo": demo.demo,
    "daemon": daemon.daemon,
    "status": status.status,
    "explain": explain.explain,
    "send": send.send,
    "listen": listen.listen,
    "chat": chat.chat,
    "call": call.call,
    "serve": serve.serve,
    "lock": lock.lock,
    "flood": flood.flood,
    "simulate": simulate.simulate,
    "journal": journal.journal,
    "ingest": ingest.ingest,
    "check": check.check,
    "report": report.report,
    "campaign": campaign.campaign,
    "lab": lab.lab,
}
_VERB_GROUPS: dict[str, tuple[str | None, dict[str, Callable[..., None]]]] = {
    "config": (
        config.__doc__,
        {"check": config.check, "example": config.example, "import-spread": import_spread.import_spread},
    ),
    "bench": (
        bench.__doc__,
        {
            "throughput": bench.throughput,
            "latency": bench.latency,
            "priority": bench.priority,
            "spread": bench.spread,
            "peers": peers.peers,
        },
    ),
}


def _register() -> None:
    for word, verb in _VERBS.items():
        app.command(word)(verb)
    for word, (about, verbs) in _VERB_GROUPS.items():
        group = typer.Typer(invoke_without_command=True, callback=_needs_verb, rich_markup_mode=None)
        for second_word, verb in verbs.items():
            group.command(second_word)(verb)
        app.add_typer(group, name=word, help=about)


_register()


def _fail(text: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"antiphon: {printable(' '.join(text.split()))}", file=sys.stderr)
    return code


def _reader_gone() -> int:
    """The reader of our output has gone (`antiphon listen chat | head -1`): a quiet end, and no error."""
    # The interpreter flushes stdout once more at its end; let that go nowhere.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def exit_code(words: list[str]) -> int:
    """Carry out the command made of `words` and return its exit code."""
    # Taken out here, so that it works on either side of the verb and for errors of the parser itself.
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        code = app(args=words, prog_name="antiphon", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # the libraries that print for us end so
            return _reader_gone()
        raise
    except (UsageError, ConfigError) as error:
        return _fail(str(error), EXIT_USAGE, debug)
    except AntiphonError as error:
        return _fail(str(error), EXIT_FAULT, debug)
    except _ParserError as error:
        message = getattr(error, "format_message", error.__str__)()
        command = getattr(getattr(error, "ctx", None), "command_path", "antiphon")
        return _fail(f"{message} (see {command} --help)", EXIT_USAGE, debug)
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except OSError as error:
        return _fail(str(error), EXIT_FAULT, debug)


def _terminated(_number: int, _frame: FrameType | None) -> NoReturn:
    """Unwind on SIGTERM instead of vanishing: verbs have processes to end and files to remove."""
    sys.exit(EXIT_TERMINATED)


def run() -> NoReturn:
    """Carry out what the command line says and exit."""
    signal.signal(signal.SIGTERM, _terminated)
    sys.exit(exit_code(sys.argv[1:]))
