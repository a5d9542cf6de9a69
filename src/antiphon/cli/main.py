"""The `antiphon` command: its verbs, its exit codes, and how it says that something is wrong.

Exit codes: 0 fine, 1 found a fault, 2 wrong use, 130 interrupted. Whatever the user can mend is one line on
stderr; `--debug` shows the traceback as well.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from types import FrameType
from typing import Annotated, NoReturn

import typer

from antiphon.errors import AntiphonError, ConfigError, UsageError
from antiphon.words import printable

EXIT_FAULT = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_TERMINATED = 128 + signal.SIGTERM

COMPLETING = "_ANTIPHON_COMPLETE"
"""A shell that wants to have a line completed runs the command with this variable."""

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


def options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error, too.")] = False,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Wide-area group communication: ordered, reliable messages between processes at many sites.

    \b
    Example: see everything in a minute
      antiphon demo --seconds 60
    """
    _needs_verb(context)


_VERBS = (
    "demo", "daemon", "status", "explain", "send", "listen", "chat", "call", "serve", "lock", "flood",
    "simulate", "journal", "ingest", "check", "report", "campaign", "lab",
)  # fmt: skip
"""Each is a function in the module of its name."""
_VERB_GROUPS = {
    "config": {
        "check": "config", "example": "config", "import-spread": "import_spread", "keygen": "config",
        "reload": "reload", "token": "token",
    },
    "bench": {
        "throughput": "bench", "latency": "bench", "priority": "bench", "spread": "bench", "peers": "peers",
    },
}  # fmt: skip
"""For each word after the first one, the module that has its function; the group's own module says what the
group is for."""


def _verb(module: str, word: str) -> Callable[..., None]:
    found: Callable[..., None] = getattr(import_module(f"antiphon.cli.{module}"), word.replace("-", "_"))
    if "address" not in found.__annotations__:
        return found
    from antiphon.cli.credentials import with_credentials  # for those that talk to a daemon

    return with_credentials(found)


def _summary(description: str | None) -> str:
    """The first sentence of a description, for a list of verbs, which cuts off whole ones that are too long.

    >>> _summary("Measure this machine: with real\\n    daemons. Nothing else should run.")
    'Measure this machine: with real daemons.'
    """
    paragraph = " ".join((description or "").partition("\n\n")[0].split())
    sentence, end, _ = paragraph.partition(". ")
    return sentence + end.rstrip()


def _typed() -> list[str]:
    """The words of a line that a shell wants to have completed, without the name of the command."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return line.split()[1:]


def command_line(words: Sequence[str] = ()) -> typer.Typer:
    """The command line, with all of its verbs; or, if `words` begin with one, with that alone: loading a verb
    takes time, and loading all of them twice as much as any needs."""
    app = typer.Typer(
        name="antiphon",
        invoke_without_command=True,
        add_completion=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options)
    first = words[0] if words else ""
    is_known = first in (*_VERBS, *_VERB_GROUPS, "--version")
    for word in _VERBS:
        if word == first or not is_known:
            verb = _verb(word, word)
            app.command(word, short_help=_summary(verb.__doc__))(verb)
    for word, verbs in _VERB_GROUPS.items():
        if word == first or not is_known:
            group = typer.Typer(invoke_without_command=True, callback=_needs_verb, rich_markup_mode=None)
            for second_word, module in verbs.items():
                verb = _verb(module, second_word)
                group.command(second_word, short_help=_summary(verb.__doc__))(verb)
            description = import_module(f"antiphon.cli.{word}").__doc__
            app.add_typer(group, name=word, help=description, short_help=_summary(description))
    return app


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
        is_completing = COMPLETING in os.environ
        code = command_line(_typed() if is_completing else words)(
            args=words, prog_name="antiphon", standalone_mode=False
        )
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
