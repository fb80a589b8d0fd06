"""The verbs, each of which is imported when it is called: the list of them needs their names and
summaries alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, get_type_hints

import typer
import typer.main
from typer.core import TyperCommand

from hyperslab.cli import starting
from hyperslab.cli.plain import PlainCommand
from hyperslab.units import show_list

DEBUG = "--debug"
TROUBLE = 2
"Exit status of diff that failed: its 1 says that two sources differ."
EPILOG = f"With {DEBUG} anywhere on the line, an error shows its traceback, too."

SUMMARIES = {
    "info": (
        "Say what arrays are in PATH: shape, dtypes, chunks, codecs, scaling, and which read path"
        " is used and why."
    ),
    "run": "Run FUNCTION over SOURCE, block by block, into the directory or file OUT.",
    "convert": (
        "Write the arrays of SOURCE to DEST: in another format, in other chunks, split into"
        " blocks, or merged."
    ),
    "diff": "Compare the values and headers of A and B, block by block in bounded memory.",
    "status": (
        "Say what the run in OUT is doing, or how it ended. Exit status 0 when it is running or"
        " done, 1 otherwise."
    ),
    "wait": (
        "Wait for the end of the run in OUT, wherever it goes on. Exit status 0 when all is done, 1"
        " otherwise, also where that cannot be known here."
    ),
    "report": (
        "Say what limited the run in RUN_DIR and write its page: one HTML file that needs no"
        " network."
    ),
    "bids": (
        "Run an app over the participants of a BIDS dataset, a task each, or put their results"
        " together."
    ),
    "logs": (
        "Show what the command of task LABEL printed, how it ended and what it took; without LABEL"
        " how all ended, failed ones first. Exit status 1 when one of them failed at last."
    ),
    "cancel": (
        "Stop the run in OUT, wherever it was started; finished tasks stay done, and --resume"
        " continues from there."
    ),
    "verify": (
        "Read every output of OUT again and compare its checksum with the manifest. Exit status 1"
        " when one differs."
    ),
    "clean": (
        "Remove half-written files and the records of all runs from OUT; finished outputs stay"
        " unless --all is given."
    ),
    "synth": (
        "Write a deterministic array of any size, in parallel: the same voxels whatever the blocks"
        " and workers."
    ),
    "tiers": (
        "Say what PATHs are made of, here and on the hosts of a cluster: device, write-back, space,"
        " stripes, and which of them share a device."
    ),
    "experiment": (
        "Vary factors around a baseline, in random order and repeated, and say what follows."
    ),
    "netlab": (
        "Make nodes on this host whose links are slow, distant or lossy, and run commands in them;"
        " see what goes over the links of a cluster."
    ),
    "scratch": (
        "Make directories for temporary files in which names cost nothing, on storage where they"
        " do, and run commands with them."
    ),
    "trace-files": (
        "Run COMMAND and count its operations on files, with those of all that it starts: by"
        " directory, by kind of file, by phase."
    ),
    "functions": "List the built-in functions with their parameters.",
    "probe": (
        "Measure what the storage of PATHs does: bandwidth, latency, operations on names; and keep"
        " it for runs and reports."
    ),
    "doctor": (
        "Print versions, limits, built-ins and engines; with --start, run a small job on every"
        " engine. Exit status 1 when one fails."
    ),
}
"What each verb's own help begins with, by the name of its module and function."
SUB_VERBS: dict[str, dict[str, str]] = {
    "tiers": {
        "emulate": "emulation:emulate",
        "list": "emulation:list_",
        "remove": "emulation:remove",
    },
    "experiment": {
        "list": "listing:list_",
        "plan": "experiment:plan",
        "run": "experiment:run",
        "resume": "experiment:resume",
        "report": "experiment:report",
        "verdicts": "verdicts:verdicts",
    },
    "netlab": {
        "up": "netlab:up",
        "status": "netlab:status",
        "exec": "netlab:exec_",
        "set": "netlab:set_",
        "down": "netlab:down",
        "record": "record:record",
        "decode": "decode:decode",
        "gather": "gather:gather",
    },
    "scratch": {
        "create": "scratch:create",
        "exec": "scratch:exec_",
        "list": "scratch:list_",
        "remove": "scratch:remove",
    },
}
"""Verbs that follow a verb, as in `tiers list`, by their place as MODULE:FUNCTION below this
package. A path of such a name is written ./list.
"""

TAKE_A_COMMAND = (("netlab", "exec"), ("scratch", "exec"), ("trace-files",))
"Verbs that end with another command, which has options of its own."


class Interrupted(Exception):
    """Ctrl-C or SIGTERM, as an exception that typer lets through."""


class Verb(TyperCommand):
    """A verb as the list of verbs has it; whoever parses its arguments gets the verb itself."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **more: Any) -> Any:
        """Context of the verb itself, or of the one that follows it, whose module is imported
        now.
        """
        name = str(self.name)
        following = SUB_VERBS.get(name, {})
        if not args or args[0] not in following:
            verb = _parsing(load(name), (name,))
            return verb.make_context(info_name, args, *rest, **more)
        word, *left = args
        verb = _parsing(load(word, following[word]), (name, word))
        return verb.make_context(f"{info_name} {word}", left, *rest, **more)


def takes_a_command(words: Sequence[str]) -> bool:
    """Whether a line begins with a verb that ends with another command."""
    return any(tuple(words[: len(verb)]) == verb for verb in TAKE_A_COMMAND)


def _parsing(verb: Any, words: tuple[str, ...]) -> Any:
    """A verb that leaves the options of a command behind it alone, if it takes one."""
    if takes_a_command(words):
        verb.allow_interspersed_args = False
    return verb


def load(name: str, place: str = "") -> Any:
    """The verb's command with its flags, of its module."""
    module, _, function = (place or _own_place(name)).partition(":")
    verb = getattr(import_module(f"hyperslab.cli.{module}"), function)
    app = typer.Typer(add_completion=False)
    app.command(name, cls=PlainCommand, epilog=_epilog(name))(_interruptible(verb))
    return typer.main.get_command(app)


def _own_place(name: str) -> str:
    """Module and function of a verb that follows none."""
    word = name.replace("-", "_")
    return f"{word}:{word}"


def _epilog(name: str) -> str:
    """What the help of a verb ends with: the verbs that may follow it, and --debug."""
    following = [f"'hyperslab {name} {word}'" for word in SUB_VERBS.get(name, {})]
    if not following:
        return EPILOG
    return f"{show_list(following)} are verbs of their own, each with --help. {EPILOG}"


def add_verbs(app: typer.Typer) -> None:
    """List all verbs in the help of an app."""
    for name, summary in SUMMARIES.items():
        app.command(name, cls=Verb, help=summary, epilog=EPILOG)(_not_loaded)


def _not_loaded() -> None:
    """Function of a verb that is only listed; its context leads to another."""
    raise NotImplementedError("a verb is called through its context")


def _interruptible(verb: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(verb)
    def run_verb(*args: Any, **options: Any) -> int:
        starting.end()
        try:
            return verb(*args, **options)
        except KeyboardInterrupt as reason:
            interrupted = Interrupted()
            for note in getattr(reason, "__notes__", []):
                interrupted.add_note(note)
            raise interrupted from reason

    # typer asks for them several times, and would evaluate them each time
    run_verb.__annotations__ = get_type_hints(verb, include_extras=True)
    return run_verb
