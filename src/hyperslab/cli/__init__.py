"""The command line: one file per verb; every error is a sentence, a traceback only with --debug."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType

import typer

from hyperslab.cli.cancel import cancel
from hyperslab.cli.clean import clean
from hyperslab.cli.doctor import doctor
from hyperslab.cli.info import info
from hyperslab.cli.run import run
from hyperslab.cli.status import status
from hyperslab.cli.synth import synth
from hyperslab.cli.verify import verify
from hyperslab.errors import HyperslabError, UsageError

USAGE, FAILED, INTERRUPTED = 2, 1, 130
WRONG_ARGUMENTS: type[Exception] = typer.BadParameter.__bases__[0]
"What typer raises for wrong arguments; newer versions of it bring their own copy of click, so click's is not it."

app = typer.Typer(
    name="hyperslab",
    help="Run a function over arrays larger than memory, on any engine, and see where the time went.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (info, run, status, cancel, verify, clean, synth, doctor):
    app.command()(verb)


def _show_version(wanted: bool) -> None:
    if wanted:
        from hyperslab import __version__

        typer.echo(f"hyperslab {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Print the version."),
) -> None:
    """Options that belong to no verb."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `hyperslab` command: exits with 0, 1 for failed tasks, 2 for usage, 130 for Ctrl-C."""
    signal.signal(signal.SIGTERM, _terminate)
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    if not given:
        given = ["--help"]
    try:
        code = app(args=[argument for argument in given if argument != "--debug"], standalone_mode=False)
    except WRONG_ARGUMENTS as error:
        code = _say(getattr(error, "format_message", error.__str__)(), USAGE)
    except (KeyboardInterrupt, typer.Abort) as error:
        code = _say("interrupted: run the same command with --resume to go on", INTERRUPTED, error)
    except HyperslabError as error:
        if debug:
            raise
        code = _say(str(error), USAGE if isinstance(error, UsageError) else FAILED, error)
    sys.exit(code)


def _say(sentence: str, code: int, error: BaseException | None = None) -> int:
    notes = getattr(error, "__notes__", [])
    print("\n".join([f"hyperslab: {sentence}", *notes]), file=sys.stderr)
    return code


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    """A scheduler's SIGTERM ends a run as Ctrl-C does: with its records written."""
    raise KeyboardInterrupt
