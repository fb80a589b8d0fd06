"""Flags that several commands take: said once, so that they mean the same everywhere."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyperslab.cli.parse import parse_size
from hyperslab.cli.telling import is_debugging
from hyperslab.engines.facts import connect_help, engine_names
from hyperslab.errors import UsageError
from hyperslab.redaction import OPTION

if TYPE_CHECKING:
    from hyperslab.driver.options import Options

Opt = typer.Option

# Panels of the help, whose titles get examples (`hyperslab.cli.help_page`).
INPUTS = "Inputs"
COMMAND = "Commands"
FUNCTION = "The function"
OUTPUTS = "Outputs"
BLOCKS = "Blocks"
ENGINE = "The engine"
STAGING = "Slow storage"
GOING_ON = "Before and after"
SHOWN = "What is shown"

AS_FOR_RUN = "A running cluster, as for 'hyperslab run'."
"Meaning of --connect where another command lists what it takes."


def completing(words: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What a shell completes an argument with: those of the words that begin like it."""
    # typer knows the argument by this name
    return lambda incomplete: [word for word in words() if word.startswith(incomplete)]


def choice(*words: str) -> dict[str, Any]:
    """How a flag that takes one of these words says so, in its help and to a shell."""
    return {"metavar": "|".join(words), "autocompletion": completing(lambda: words)}


def compression_flag(default: str) -> Any:
    """How new files are compressed, and how they are by default."""
    return Opt(
        help="Compression of new files, also with a level, as gzip:1; zstd and blosc are for"
        f" Zarr; by default {default}.",
        rich_help_panel=OUTPUTS,
        **choice("none", "gzip", "zstd", "blosc"),
    )


def _named(context: typer.Context, parameter: typer.CallbackParam, value: str) -> str:
    """The directory that a flag names. Raises UsageError for one without a name, as that of a
    variable that is not set: nothing would be staged, and nobody would be told.
    """
    assert parameter.name is not None
    given = context.get_parameter_source(parameter.name)
    if not value and given is not None and given.name == "COMMANDLINE":
        raise UsageError(
            f"{parameter.opts[0]} has no value: give a directory; a variable of the shell may not"
            " be set"
        )
    return value


Axis = Annotated[
    int | None, Opt(help="Axis for --sources concatenated; 0 by default.", rich_help_panel=INPUTS)
]
Engine = Annotated[
    str,
    Opt(
        help="What runs the tasks: this process, threads or processes of it, or a cluster.",
        rich_help_panel=ENGINE,
        metavar=" | ".join(engine_names()),  # blanks: so many words take several lines
        autocompletion=completing(engine_names),
    ),
]
StorageOption = Annotated[
    list[str],
    Opt(
        OPTION,
        help="Option for fsspec, which opens URLs, as NAME=VALUE (or JSON); never recorded.",
        rich_help_panel=INPUTS,
    ),
]
Json = Annotated[
    bool, Opt("--json", help="Print one JSON document instead of lines, for programs.")
]
JsonOfPlan = Annotated[
    bool,
    Opt(
        "--json",
        help="With --dry-run: print one JSON document instead of lines, for programs.",
        rich_help_panel=GOING_ON,
    ),
]
Quiet = Annotated[
    bool, Opt("--quiet", "-q", help="Print failures and nothing else.", rich_help_panel=SHOWN)
]
Verbose = Annotated[
    bool,
    Opt(
        "--verbose",
        "-v",
        help="Also print the numbers of the run and everything that limited it.",
        rich_help_panel=SHOWN,
    ),
]
RealOrStored = Annotated[
    str,
    Opt(
        help="real (slope and intercept applied) or stored.",
        rich_help_panel=INPUTS,
        **choice("real", "stored"),
    ),
]
Report = Annotated[
    bool,
    Opt(
        help="Write the page at the end; 'hyperslab report' can write it later.",
        rich_help_panel=SHOWN,
    ),
]
Live = Annotated[
    bool,
    Opt(
        "--live",
        help="Show the page while the run goes on, in a browser of this machine.",
        rich_help_panel=SHOWN,
    ),
]
RecordMessages = Annotated[
    bool,
    Opt(
        "--record-messages",
        help="Keep every message of the engine's processes: time, ends, operation, bytes; of Spark"
        " what its event log says.",
        rich_help_panel=ENGINE,
    ),
]
CountFiles = Annotated[
    bool,
    Opt(
        "--count-files",
        help="Count the operations on files of the run and all its processes on this host"
        " (see 'hyperslab trace-files').",
        rich_help_panel=ENGINE,
    ),
]
Retries = Annotated[
    int,
    Opt(
        help=(
            "Number of further attempts at a failed task; none at a mistake in the function, such"
            " as a NameError."
        ),
        rich_help_panel=ENGINE,
    ),
]
Partition = Annotated[
    str | None,
    Opt(
        help="How arrays are cut: as the run finds best, by stored chunks, by slabs across the"
        " slowest axis, or into blocks of a size.",
        rich_help_panel=BLOCKS,
        metavar="auto | chunks | slabs | bytes=SIZE",
        autocompletion=completing(lambda: ("auto", "chunks", "slabs", "bytes=")),
    ),
]
Granularity = Annotated[
    str,
    Opt(
        help="fused: a block's steps are one operator; stepwise: each is its own.",
        rich_help_panel=ENGINE,
        **choice("fused", "stepwise"),
    ),
]
TaskTimeout = Annotated[
    float | None,
    Opt(help="Seconds after which a task's worker is stopped.", rich_help_panel=ENGINE),
]
StageIn = Annotated[
    str,
    Opt(
        help="Directory on a fast tier, such as /dev/shm, to which input files are copied ahead of"
        " the tasks; scratch: that of --scratch.",
        callback=_named,
        rich_help_panel=STAGING,
    ),
]
StageOut = Annotated[
    str,
    Opt(
        help="Directory on a fast tier to which blocks are written, and from where they go to OUT"
        " behind the tasks; a task is done when they are there and were read back. scratch: that"
        " of --scratch.",
        callback=_named,
        rich_help_panel=STAGING,
    ),
]
WorkTier = Annotated[
    str,
    Opt(
        help="Directory on a fast tier for the scratch directories of commands, {work}; by default"
        " that of --scratch.",
        callback=_named,
        rich_help_panel=STAGING,
    ),
]
KeepFailed = Annotated[
    str,
    Opt(
        metavar="DIR",
        help="Keep what commands leave that fail, with their scratch directories, in DIR/TASK; by"
        " default it is removed.",
        rich_help_panel=ENGINE,
    ),
]
Scratch = Annotated[
    str,
    Opt(
        metavar="auto|tmpfs|image:DIR|DIR",
        help="Where engines leave what they spill and shuffle, and commands their temporary files:"
        " memory, one file on the storage of DIR, or files in DIR; auto takes memory, or one file"
        " with the temporary files. Variables are those of the host where it is. See 'hyperslab"
        " scratch'.",
        rich_help_panel=STAGING,
    ),
]
ReadersPerDevice = Annotated[
    int | None,
    Opt(
        help="Number of tasks that may read from one device at a time; the others wait.",
        rich_help_panel=STAGING,
    ),
]
Stagger = Annotated[
    float,
    Opt(
        help="Seconds between the first reads of two slots; 0 lets all begin at once.",
        rich_help_panel=STAGING,
    ),
]
Threads = Annotated[int | None, Opt(help="Tasks at a time per worker.", rich_help_panel=ENGINE)]
Throttle = Annotated[
    int | None,
    Opt(
        help="Slurm jobs that may run at a time, the %N of the array; 16 by default.",
        rich_help_panel=ENGINE,
    ),
]
SlurmOption = Annotated[
    list[str],
    Opt(
        "--slurm-option",
        help="Option of sbatch for the jobs, such as time=1:00:00; may be repeated.",
        rich_help_panel=ENGINE,
    ),
]
FailFast = Annotated[
    bool | None,
    Opt(
        "--fail-fast/--keep-going",
        help=(
            "End the run at the first failure, or try all tasks whatever fails. By default it ends"
            " early if the first tasks all fail at the same line of the function."
        ),
        show_default=False,
        rich_help_panel=ENGINE,
    ),
]
Workers = Annotated[
    int | None,
    Opt(
        help="Worker processes; by default one per processor this process may use.",
        rich_help_panel=ENGINE,
    ),
]


def by_way_of(
    stage_in: str, stage_out: str, work_tier: str, readers: int | None, stagger: float
) -> dict[str, Any]:
    """What the flags of staging and of turns ask for, by the names that options have."""
    return {
        "stage_in": stage_in,
        "stage_out": stage_out,
        "work_tier": work_tier,
        "readers_per_device": readers,
        "stagger": stagger,
    }


def options_of(given: Mapping[str, Any], **others: Any) -> Options:
    """The options of a run: the flags of a command that are named as options are, and others that
    count in their place. Raises UsageError for what no run can do.
    """
    from hyperslab.driver.options import Options  # and with it what commands without runs lack

    known = inspect.signature(Options).parameters
    flags = {name: value for name, value in given.items() if name in known}
    return Options(**{"debug": is_debugging(), **flags, **others})


def connect_flag(meaning: str = "") -> Any:
    """Flag --connect; `meaning` is a sentence in place of what it takes, where that is told
    elsewhere.
    """
    return Opt(help=meaning or connect_help(), rich_help_panel=ENGINE)


def memory_flag(pieces: str, example: str) -> Any:
    """Flag --memory of a command that works on such pieces, with a size as an example."""
    return Opt(
        help=f"Memory for all {pieces} that run at a time, such as {example}; by default 80 % of"
        " what is available.",
        rich_help_panel=BLOCKS,
    )


def resume_flag(meaning: str) -> Any:
    """Flag --resume, which has no opposite; `meaning` is a sentence."""
    return Opt("--resume", help=meaning, rich_help_panel=GOING_ON)


def overwrite_flag(meaning: str) -> Any:
    """Flag --overwrite, which has no opposite; `meaning` is what it replaces, and when."""
    return Opt("--overwrite", help=f"{meaning}; a file in one step.", rich_help_panel=GOING_ON)


def dry_run_flag(meaning: str) -> Any:
    """Flag --dry-run, which has no opposite; `meaning` is what it says instead of doing it."""
    return Opt("--dry-run", help=f"{meaning}; do nothing.", rich_help_panel=GOING_ON)


def memory_bytes(text: str | None) -> int | None:
    """Bytes that --memory asks for; None where it is left out."""
    if text is None:
        return None
    return parse_size("--memory", text)


def require_dry_run(json: bool, dry_run: bool) -> None:
    """Raise UsageError for --json of a command that does something."""
    if json and not dry_run:
        raise UsageError(
            "--json: is for --dry-run; 'hyperslab report OUT --json' says what a run has done"
        )
