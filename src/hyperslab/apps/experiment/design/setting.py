"""Setting: how a trial is run, as what factors make of their levels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hyperslab.apps.experiment.design.links import Links
from hyperslab.plan.written import parse_size

IN_SPARK = ("spark-pairs", "spark-mllib")
"Programs that compute in rounds in Spark."
READ_BEFORE = ("spark-binary-files",)
"Programs whose tasks are given what somebody else has read."
BRAIN = "brain"
"App that comes with hyperslab."
IDLE = "idle"
"Workload in which a cluster has nothing to do."
BIDS = "bids"
"Kind of a synthetic source that is a BIDS dataset, over whose participants an app runs."


@dataclass(frozen=True, slots=True)
class Recipe:
    """A synthetic source: what `hyperslab synth` is asked for, or a dataset of made heads."""

    kind: str
    "Kind of the array, bigbrain or climate; or bids."
    size: str
    "Size of the whole array, or of all images, such as 2GiB."
    files: int
    "Number of files that the array is cut into, or of participants."
    format: str
    "Format of the files, nii or h5."
    seed: int

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array, about."""
        return parse_size("--size", self.size)

    @property
    def name(self) -> str:
        """Name of the folder that holds its files."""
        size = self.size.replace(" ", "")
        return f"{self.kind}-{size}-{self.files}-{self.format}-{self.seed}"


def processors_of(text: str) -> list[int]:
    """Numbers of processors from '0-3,8'; none from ''. Raises ValueError."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        low, dash, high = part.partition("-")
        if not low.isdigit() or (dash and not high.isdigit()):
            raise ValueError(f"'{text}' names no processors: give their numbers, such as 0-3,8")
        found += range(int(low), int(high or low) + 1)
    return found


@dataclass(frozen=True, slots=True)
class Folder:
    """A flag of `hyperslab run` whose value holds a directory."""

    flag: str
    value: str
    "Value, with {} in the place of the directory."
    level: Path
    "Directory, or named tier."
    is_ours: bool = False
    "Whether the trial gets a folder of its own in there, which is removed after it."


@dataclass(frozen=True, slots=True)
class Setting:
    """How a trial is run. Factors change one into another; see `factors`."""

    flags: tuple[str, ...] = ()
    "Flags of `hyperslab run`, with their values."
    recipe: Recipe | None = None
    "Synthetic source; None where the spec names files."
    workload: str = ""
    "Function that is run; '': the spec's."
    program: str = ""
    "Name of a program that runs instead of `hyperslab run`, see `programs`; '': none."
    processors: str = ""
    "Processors that the trial is pinned to, such as 0-3,8; '': it may use all."
    cpus_per_task: int = 0
    "Processors that a task may use, where its share is larger; 0: its share."
    input_tier: Path | None = None
    "Directory, or named tier, in which the source is made; None: the experiment's own."
    output_tier: Path | None = None
    "Directory, or named tier, in which the trial writes; None: the experiment's own."
    folders: tuple[Folder, ...] = ()
    "Further directories that the run is told of."
    links: Links | None = None
    "Laboratory that it runs in; None: in none."

    @property
    def verb(self) -> str:
        """The command of hyperslab that a trial is."""
        if self.recipe is not None and self.recipe.kind == BIDS:
            return "bids"
        return "run"

    def value_of(self, flag: str) -> str:
        """The value of a flag of `hyperslab run`, the last one where there are several; '' without
        any.
        """
        value = ""
        for word, following in zip(self.flags, (*self.flags[1:], ""), strict=True):
            if word == flag:
                value = following
            if word.startswith(f"{flag}="):
                value = word.partition("=")[2]
        return value

    def with_flag(self, flag: str, value: Any) -> Setting:
        """The setting with a flag of `hyperslab run` and its value."""
        return replace(self, flags=(*self.flags, flag, str(value)))

    def without_flag(self, flag: str) -> Setting:
        """The setting without a flag that has a value."""
        kept: list[str] = []
        for word in self.flags:
            if kept and kept[-1] == flag:
                kept.pop()
            elif not word.startswith(f"{flag}="):
                kept.append(word)
        return replace(self, flags=tuple(kept))

    def with_folder(self, flag: str, value: str, level: str, is_ours: bool = False) -> Setting:
        """The setting with a flag whose value, a text with {}, holds a directory or a tier; or a
        folder of the trial's own in there.
        """
        folder = Folder(flag, value, Path(level), is_ours)
        return replace(self, folders=(*self.folders, folder))

    def with_param(self, name: str, value: Any) -> Setting:
        """The setting with a parameter of the workload."""
        return self.with_flag("--param", f"{name}={value}")

    def with_recipe(self, **fields: Any) -> Setting:
        """The setting with another synthetic source. Raises ValueError where the source is files
        of the user's.
        """
        if self.recipe is None:
            raise ValueError("is for a synthetic source (source.synth), not for files")
        return replace(self, recipe=replace(self.recipe, **fields))
