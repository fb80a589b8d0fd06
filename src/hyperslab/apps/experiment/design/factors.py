"""Factors: what can be varied in an experiment, and how each level becomes a setting of a trial.

A factor is one function `(setting, level) -> setting`, registered under its name with the type of
its levels. Those of this package are below. Others come from a file (`--factors FILE.py`), or from
a package, whose entry point of the group `hyperslab.factors` names the module that registers them.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from hyperslab import formats
from hyperslab.apps.experiment.design.links import Slow, require_rate, require_slow, with_links
from hyperslab.apps.experiment.design.setting import IN_SPARK, Setting, processors_of
from hyperslab.driver.options import GRANULARITIES
from hyperslab.engines.facts import engine_names
from hyperslab.errors import HyperslabError, UsageError, suggest
from hyperslab.machine.host import Host
from hyperslab.plan.mistakes import clause_of
from hyperslab.plan.written import parse_size
from hyperslab.storage.scratch.holding import IMAGE
from hyperslab.storage.scratch.making import AUTO
from hyperslab.storage.scratch.registry import TMPFS
from hyperslab.workloads.synth import Format

PROGRAMS = ("spark-binary-files", "h5py", "dask-arrays", *IN_SPARK, "file-reads")
"Programs that run beside hyperslab, see `programs`, which is not imported before one is."
GROUP = "hyperslab.factors"
"Group of entry points of packages that bring factors."
ENGINE = "engine"
"Name of the factor whose levels are engines, and programs beside them."
ALL = "all"
NONE = "none"
"Level of a factor that names a tier, where there is none."
Level = str | int | float | bool
Apply = Callable[[Setting, Any], Setting]


@dataclass(frozen=True, slots=True)
class Factor:
    """Something that can be varied."""

    name: str
    kind: Any
    "Type of its levels, as pydantic takes it."
    about: str
    "Meaning, in a line."
    apply: Apply
    is_work: bool = False
    "Whether its levels are other work, of which nobody chooses the one that takes less time."

    def applied(self, setting: Setting, level: Level) -> Setting:
        """The setting that its function makes of a level. Raises ValueError for a level that cannot
        be had, and UsageError with file and line of a function that fails.
        """
        try:
            made: Any = self.apply(setting, level)
        except (HyperslabError, ValueError):
            raise
        except Exception as error:  # whatever a user's function raises
            why = f"{type(error).__name__}: {error}"
            raise self._failed(level, why, error) from error
        if not isinstance(made, Setting):
            raise self._failed(level, f"it returned {made!r:.60}, and has to return the setting")
        return made

    def _failed(self, level: Level, why: str, error: Exception | None = None) -> UsageError:
        place = _place_of(self.apply, error)
        return UsageError(f"{place}: factor '{self.name}' at level {level!r}: {why}")

    def problem_of(self, level: Any) -> str:
        """What is wrong with a level, as a clause; '' where nothing is."""
        try:
            TypeAdapter(self.kind).validate_python(level, strict=True)
        except ValidationError as error:
            return clause_of(error.errors()[0])
        return ""


FACTORS: dict[str, Factor] = {}
"All that are registered, in the order in which they are listed."


def factor(name: str, kind: Any, about: str, *, is_work: bool = False) -> Callable[[Apply], Apply]:
    """Register a function as a factor; `is_work` of one whose levels are other work. Raises
    UsageError for a name that is taken.
    """

    def register(apply: Apply) -> Apply:
        if name in FACTORS:
            raise UsageError(f"factor '{name}': there is one of this name already; choose another")
        FACTORS[name] = Factor(name, kind, about, apply, is_work)
        return apply

    return register


def _place_of(function: Apply, error: Exception | None) -> str:
    """File and line of a function, or of what has failed in its file."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return repr(function)
    lines = [code.co_firstlineno]
    if error is not None:
        frames = traceback.extract_tb(error.__traceback__)
        lines += [frame.lineno for frame in frames if frame.filename == code.co_filename]
    return f"{code.co_filename}:{lines[-1]}"


def load_factors(path: Path) -> None:
    """Register the factors of a file. Raises UsageError."""
    name = f"hyperslab_factors_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"--factors {path}: there is no such Python file")
    if getattr(sys.modules.get(name), "__file__", None) == str(path):
        return  # registered before, by the same process
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except UsageError:
        raise
    except Exception as error:  # whatever a user's file raises
        raise UsageError(f"--factors {path}: {type(error).__name__}: {error}") from error


def load_installed_factors() -> None:
    """Register the factors of other packages that are installed. Raises UsageError."""
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:  # whatever a package raises when it is imported
            raise UsageError(
                f"the factors of {entry.value} cannot be loaded: {error}; fix or remove its package"
            ) from error


def _known_engine(name: str) -> str:
    known = [*engine_names(), *PROGRAMS]
    if name not in known:
        raise ValueError(f"there is no engine '{name}'{suggest(name, known)}")
    return name


def _known_format(name: str) -> str:
    known = list(formats.written())
    if name not in known:
        raise ValueError(f"'{name}' cannot be written; choose one of {', '.join(known)}")
    return name


def _known_size(text: str) -> str:
    try:
        parse_size("size", text)
    except UsageError as error:
        raise ValueError(str(error)) from error
    return text


def _known_processors(text: str) -> str:
    if text != ALL:
        processors_of(text)
    return text


Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Times = Annotated[str, Field(pattern=r"^\d+(\.\d+)?x$")]
Engine = Annotated[str, AfterValidator(_known_engine)]
Slowed = Annotated[str, AfterValidator(require_slow)]
Rate = Annotated[str, AfterValidator(require_rate)]
Pinned = Annotated[str, AfterValidator(_known_processors)]
Limit = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]
Size = Annotated[str, AfterValidator(_known_size)]


@factor("engine", Engine, f"Engine that runs the tasks, or {' or '.join(PROGRAMS)} instead.")
def engine(setting: Setting, level: str) -> Setting:
    """What --engine says, or the program that runs instead."""
    if level in PROGRAMS:
        return replace(setting, program=level)
    return setting.with_flag("--engine", level)


@factor("workers", Count | Times, "Worker processes, or '0.25x' of the machine's processors.")
def workers(setting: Setting, level: int | str) -> Setting:
    """What --workers says."""
    if isinstance(level, str):
        level = workers_on(Host.here().cpus, level)
    return setting.with_flag("--workers", level)


def workers_on(processors: int, share: str) -> int:
    """The number of workers that a share of so many processors, such as 0.25x, comes to."""
    return max(1, round(float(share.removesuffix("x")) * processors))


@factor("threads", Count, "Tasks at a time per worker.")
def threads(setting: Setting, level: int) -> Setting:
    """What --threads says."""
    return setting.with_flag("--threads", level)


@factor(
    "cpus_per_task",
    Count,
    "Processors that BLAS, OpenMP and decoding of a task may use, where its share is larger.",
)
def cpus_per_task(setting: Setting, level: int) -> Setting:
    """What variables of the environment say."""
    return replace(setting, cpus_per_task=level)


@factor("files", Count, "Files that a synthetic source is cut into: the blocks of paper designs.")
def files(setting: Setting, level: int) -> Setting:
    """Number of files of a synthetic source."""
    return setting.with_recipe(files=level)


@factor("participants", Count, "Participants of a dataset of made heads.", is_work=True)
def participants(setting: Setting, level: int) -> Setting:
    """Number of participants of a synthetic source."""
    return setting.with_recipe(files=level)


@factor("blocks", Count, "Blocks that each file is cut into.")
def blocks(setting: Setting, level: int) -> Setting:
    """What --blocks says."""
    return setting.with_flag("--blocks", level)


@factor("block_shape", Text, "Shape of the blocks, such as '64,64,64'.")
def block_shape(setting: Setting, level: str) -> Setting:
    """What --block-shape says."""
    return setting.with_flag("--block-shape", level)


@factor("iterations", Count, "Times that 'increment' adds one.", is_work=True)
def iterations(setting: Setting, level: int) -> Setting:
    """Parameter of increment."""
    return setting.with_param("iterations", level)


@factor("delay", Seconds, "Seconds that 'increment' sleeps after each time.", is_work=True)
def delay(setting: Setting, level: float) -> Setting:
    """Parameter of increment."""
    return setting.with_param("delay", level)


@factor("granularity", Literal[GRANULARITIES], "Steps of a block as one operator, or each its own.")
def granularity(setting: Setting, level: str) -> Setting:
    """What --granularity says."""
    return setting.with_flag("--granularity", level)


@factor("size", Size, "Size of a synthetic source, such as '2GiB'.", is_work=True)
def size(setting: Setting, level: str) -> Setting:
    """Bytes of a synthetic source."""
    return setting.with_recipe(size=level)


@factor("input_format", Format, "Format of a synthetic source.")
def input_format(setting: Setting, level: str) -> Setting:
    """Format of a synthetic source."""
    return setting.with_recipe(format=level)


@factor("output_format", Annotated[str, AfterValidator(_known_format)], "Format of the outputs.")
def output_format(setting: Setting, level: str) -> Setting:
    """What --format says."""
    return setting.with_flag("--format", level)


@factor("codec", Text, "Compression of the outputs, such as 'none' or 'gzip:4'.")
def codec(setting: Setting, level: str) -> Setting:
    """What --compression says."""
    return setting.with_flag("--compression", level)


@factor("tier", Text, "Directory, or tier of [tiers], of a synthetic source and of outputs.")
def tier(setting: Setting, level: str) -> Setting:
    """Where the source lies, and outputs go."""
    return replace(setting.with_recipe(), input_tier=Path(level), output_tier=Path(level))


@factor("input_tier", Text, "Directory, or tier of [tiers], in which a synthetic source is made.")
def input_tier(setting: Setting, level: str) -> Setting:
    """Where the source lies."""
    return replace(setting.with_recipe(), input_tier=Path(level))


@factor("output_tier", Text, "Directory, or tier of [tiers], in which a trial writes.")
def output_tier(setting: Setting, level: str) -> Setting:
    """Where outputs go."""
    return replace(setting, output_tier=Path(level))


@factor("stage_in", Text, "Tier to which inputs are copied ahead of the tasks, or 'none'.")
def stage_in(setting: Setting, level: str) -> Setting:
    """What --stage-in says."""
    if level == NONE:
        return setting
    return setting.with_folder("--stage-in", "{}", level)


@factor("stage_out", Text, "Tier by way of which blocks go to their files, or 'none'.")
def stage_out(setting: Setting, level: str) -> Setting:
    """What --stage-out says."""
    if level == NONE:
        return setting
    return setting.with_folder("--stage-out", "{}", level)


@factor("intermediates", Text, "Directory, or tier of [tiers]: parameter 'folder' of the workload.")
def intermediates(setting: Setting, level: str) -> Setting:
    """Where a workload leaves intermediate results."""
    return setting.with_folder("--param", "folder={}", level, is_ours=True)


@factor("region", Text, "Part of the source to work on, such as '0:64,0:64,0:64'.", is_work=True)
def region(setting: Setting, level: str) -> Setting:
    """What --region says."""
    return setting.with_flag("--region", level)


@factor("readers_per_device", Limit, "Tasks that may read from a device at a time; 0: any number.")
def readers_per_device(setting: Setting, level: int) -> Setting:
    """What --readers-per-device says."""
    if not level:
        return setting
    return setting.with_flag("--readers-per-device", level)


@factor("stagger", Seconds, "Seconds between the first reads of two slots.")
def stagger(setting: Setting, level: float) -> Setting:
    """What --stagger says."""
    return setting.with_flag("--stagger", level)


@factor("scratch", Text, "Place of temporary files: a tier, 'image:' before one, 'tmpfs', 'none'.")
def scratch(setting: Setting, level: str) -> Setting:
    """What --scratch says."""
    if level == NONE:
        return setting
    if level in (AUTO, TMPFS):
        return setting.with_flag("--scratch", level)
    if level.startswith(IMAGE):
        return setting.with_folder("--scratch", f"{IMAGE}{{}}", level.removeprefix(IMAGE))
    return setting.with_folder("--scratch", "{}", level)


@factor("clients", Count, "Sparks that compute the same at the same time.", is_work=True)
def clients(setting: Setting, level: int) -> Setting:
    """Parameter of programs in Spark."""
    return setting.with_param("clients", level)


@factor("partitions", Count, "Map tasks of a shuffle in Spark, and as many reduce tasks.")
def partitions(setting: Setting, level: int) -> Setting:
    """Parameters of programs in Spark."""
    return setting.with_param("partitions", level).with_param("reducers", level)


@factor("threshold", Limit, "Reduce tasks up to which a shuffle in Spark makes a file for each.")
def threshold(setting: Setting, level: int) -> Setting:
    """Parameter of programs in Spark."""
    return setting.with_param("threshold", level)


@factor("opens", Literal["once", "each"], "A file is opened once, or for each read of file-reads.")
def opens(setting: Setting, level: str) -> Setting:
    """Parameter of file-reads."""
    return setting.with_param("opens", level)


@factor("read_size", Size, "Size of the reads of file-reads, such as '64KiB'.")
def read_size(setting: Setting, level: str) -> Setting:
    """Parameter of file-reads."""
    return setting.with_param("read_size", level)


@factor("workload", Text, "Function that is run, instead of the spec's.", is_work=True)
def workload(setting: Setting, level: str) -> Setting:
    """The function."""
    return replace(setting, workload=level)


@factor("array", Count, "Length of both axes of a Dask array.", is_work=True)
def array(setting: Setting, level: int) -> Setting:
    """Parameter of dask-arrays."""
    return setting.with_param("array", level)


@factor("chunk", Count, "Length of both axes of the chunks of a Dask array.")
def chunk(setting: Setting, level: int) -> Setting:
    """Parameter of dask-arrays."""
    return setting.with_param("chunk", level)


@factor("lab_workers", Count, "Workers of a laboratory of links, each on a node of its own.")
def lab_workers(setting: Setting, level: int) -> Setting:
    """Nodes of the laboratory."""
    return replace(setting, links=with_links(setting.links, workers=level))


@factor(
    "link_rate",
    Rate,
    "Rate of all links of a laboratory, such as '100Mbit', or 'none'.",
    is_work=True,
)
def link_rate(setting: Setting, level: str) -> Setting:
    """Rate of all links."""
    return replace(setting, links=with_links(setting.links, rate=level))


@factor("link_delay_ms", Seconds, "Milliseconds that what a node sends is under way.", is_work=True)
def link_delay_ms(setting: Setting, level: float) -> Setting:
    """Delay of all links, one way."""
    return replace(setting, links=with_links(setting.links, delay_ms=float(level)))


@factor(
    "slow",
    Slowed,
    "Links that are worse: 'none', 'scheduler', 'worker 5ms', 'all 2%'.",
    is_work=True,
)
def slow(setting: Setting, level: str) -> Setting:
    """Links that differ from the others."""
    return replace(setting, links=with_links(setting.links, slow=Slow.parse(level)))


@factor("slow_rate", Rate, "Rate of links that 'slow' names alone.", is_work=True)
def slow_rate(setting: Setting, level: str) -> Setting:
    """Rate of the links that differ."""
    return replace(setting, links=with_links(setting.links, slow_rate=level))


@factor("processors", Pinned, "Processors that a trial is pinned to, such as '0-3,8', or 'all'.")
def processors(setting: Setting, level: str) -> Setting:
    """Processors of all processes of a trial."""
    if level == ALL:
        return replace(setting, processors="")
    return replace(setting, processors=level)
