"""The command line: one file per verb; every error is a sentence, a traceback only with --debug."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType

import typer

from hyperslab.cli import starting
from hyperslab.cli.ahead import worker_ahead
from hyperslab.cli.companions import dismiss, leave_to_the_first
from hyperslab.cli.line import keep_line
from hyperslab.cli.plain import PlainGroup
from hyperslab.cli.telling import (
    drop_unwritten,
    hold_standard_streams,
    set_debugging,
    told_if_heard,
)
from hyperslab.cli.verbs import DEBUG, TROUBLE, Interrupted, add_verbs, takes_a_command
from hyperslab.errors import HyperslabError, MissingExtra, UsageError, speaking_flags
from hyperslab.redaction import redact

USAGE, FAILED, INTERRUPTED = 2, 1, 130
WRONG_ARGUMENTS: type[Exception] = typer.BadParameter.__bases__[0]
"""What typer raises for wrong arguments; newer versions of it bring their own copy of click, so
click's is not it.
"""
RESUMED = (["run"], ["convert"], ["bids"])
"Verbs that continue what was interrupted."

app = typer.Typer(
    name="hyperslab",
    cls=PlainGroup,
    help=(
        "Run a function over arrays larger than memory, on any engine, and see where the time went."
    ),
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
add_verbs(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        from hyperslab import __version__

        typer.echo(f"hyperslab {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version."
    ),
    debug: bool = typer.Option(
        False, DEBUG, help="Show the traceback of an error; may stand anywhere on the line."
    ),
) -> None:
    """Options that belong to no verb; --debug is taken out of the line before it gets here."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `hyperslab` command: exits with 0, 1 for failed tasks, 2 for usage, 130
    for Ctrl-C.
    """
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # nohup has it ignored
        signal.signal(signal.SIGHUP, _hang_up)
    hold_standard_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    asked = given
    if not takes_a_command(given):
        asked = [argument for argument in given if argument != DEBUG]
    set_debugging(DEBUG in given)
    keep_line(given)
    verb = asked[:1]
    try:
        with speaking_flags(), worker_ahead(asked):
            if arguments is None:
                starting.begin()  # until a verb begins
            code = app(args=asked or ["--help"], prog_name="hyperslab", standalone_mode=False)
        if code == INTERRUPTED:  # newer versions of typer turn Ctrl-C into this exit status
            raise KeyboardInterrupt
        if sys.stdout is not None:
            sys.stdout.flush()
    except (
        BrokenPipeError
    ):  # whoever read our output has gone, as `head` does: nothing is left to say
        code = TROUBLE if verb == ["diff"] else FAILED
    # the last resort says what happened, and where
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        sentence, code = _sentence(error, _to_continue(given))
        if not (_is_of_the_line(error) and leave_to_the_first(given)):
            with told_if_heard():
                _tell_error(error, sentence, DEBUG in given)
        code = TROUBLE if verb == ["diff"] and code == FAILED else code
    drop_unwritten()
    dismiss(code)
    sys.exit(code)


def _is_of_the_line(error: BaseException) -> bool:
    """Whether an error is one of the command line, and none that this host may have for itself."""
    return isinstance(error, (WRONG_ARGUMENTS, UsageError)) and not isinstance(error, MissingExtra)


def _tell_error(error: BaseException, sentence: str, debug: bool) -> None:
    if debug:
        print(redact("".join(traceback.format_exception(error))), file=sys.stderr)
    notes = [*_line_of_the_user(error), *getattr(error, "__notes__", [])]
    print("\n".join([f"hyperslab: {redact(sentence)}", *notes]), file=sys.stderr)


def _line_of_the_user(error: BaseException) -> list[str]:
    """A line with the place in the user's own code that is behind a foreseen error; none where
    there is no such place.
    """
    if not isinstance(error, HyperslabError) or not error.is_of_code:
        return []
    from hyperslab.report.failures import line_behind  # and with it what runs functions

    line = line_behind(error)
    return [f"    {redact(line)}"] * bool(line)


def _to_continue(given: Sequence[str]) -> str:
    """What continues an interrupted command of these arguments; '' for nothing does."""
    if given[:1] not in RESUMED:
        return ""
    if "--overwrite" in given:
        return ": run the same command with --resume in place of --overwrite to continue"
    return ": run the same command with --resume to continue"


def _sentence(error: BaseException, to_continue: str) -> tuple[str, int]:
    """What to say about an error, and the exit status; `to_continue` ends that of Ctrl-C."""
    if isinstance(error, WRONG_ARGUMENTS):
        return _wrong_arguments(error), USAGE
    if isinstance(error, Interrupted | typer.Abort | KeyboardInterrupt):
        return f"interrupted{to_continue}", INTERRUPTED
    if isinstance(error, HyperslabError):
        return str(error), USAGE if isinstance(error, UsageError) else FAILED
    if isinstance(error, OSError) and error.strerror:
        return (f"{error.filename}: {error.strerror}" if error.filename else error.strerror), FAILED
    what = f"{type(error).__name__}: {error}".replace("\n", " ")
    return (
        f"{what}; this should not happen: run again with {DEBUG} and report the traceback",
        FAILED,
    )


def _wrong_arguments(error: BaseException) -> str:
    """What typer says about wrong arguments, and where to read about the right ones."""
    text = str(getattr(error, "format_message", error.__str__)())
    context = getattr(error, "ctx", None)
    if context is None or not text.endswith("."):
        return text
    return f"{text[:-1]}; see '{context.command_path} --help'"


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    """A scheduler's SIGTERM ends a run as Ctrl-C does: with its records written."""
    raise KeyboardInterrupt


def _hang_up(number: int, _frame: FrameType | None) -> None:
    """So does a terminal that is closed, of which the kernel and a shell may both tell."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
