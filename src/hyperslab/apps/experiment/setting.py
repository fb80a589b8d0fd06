"""Setting: how a trial is run, as what factors make of their levels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hyperslab.plan.written import parse_size


@dataclass(frozen=True, slots=True)
class Recipe:
    """A synthetic source: what `hyperslab synth` is asked for."""

    kind: str
    "Kind of the array, bigbrain or climate."
    size: str
    "Size of the whole array, such as 2GiB."
    files: int
    "Number of files that the array is cut into."
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


@dataclass(frozen=True, slots=True)
class Setting:
    """How a trial is run. Factors change one into another; see `factors`."""

    flags: tuple[str, ...] = ()
    "Flags of `hyperslab run`, with their values."
    recipe: Recipe | None = None
    "Synthetic source; None where the spec names files."
    input_tier: Path | None = None
    "Directory in which the source is made; None: the experiment's own."
    output_tier: Path | None = None
    "Directory in which the trial writes; None: the experiment's own."

    def with_flag(self, flag: str, value: Any) -> Setting:
        """The setting with a flag of `hyperslab run` and its value."""
        return replace(self, flags=(*self.flags, flag, str(value)))

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
