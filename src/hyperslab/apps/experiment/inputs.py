"""Inputs: what trials read. Synthetic sources are made before the first trial."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from hyperslab.apps.experiment.setting import Recipe, Setting
from hyperslab.apps.experiment.spec import Loaded
from hyperslab.machine.host import Host
from hyperslab.storage.location import is_remote
from hyperslab.units import show_bytes
from hyperslab.workloads.synth import synth

FOLDER = "hyperslab-experiment"
"Folder of an experiment in a tier of the user's, with the name of its directory."


@dataclass(frozen=True, slots=True)
class Inputs:
    """Where sources are, and outputs go."""

    loaded: Loaded
    root: Path
    "Folder of the experiment."

    def folder(self, setting: Setting) -> Path:
        """Folder of a synthetic source."""
        assert setting.recipe is not None
        above = self.root / "inputs"
        if setting.input_tier is not None:
            above = self._in_tier(setting.input_tier) / "inputs"
        return above / setting.recipe.name

    def out(self, setting: Setting, trial: Path) -> Path:
        """Where a trial writes, whose folder in the experiment is `trial`."""
        if setting.output_tier is None:
            return trial / "out"
        return self._in_tier(setting.output_tier) / trial.name

    def _in_tier(self, tier: Path) -> Path:
        return tier / FOLDER / self.root.name

    def arguments(self, setting: Setting) -> list[str]:
        """Sources as `hyperslab run` is given them."""
        if setting.recipe is not None:
            return [str(self.folder(setting))]
        return [
            path if is_remote(path) else str(self.loaded.folder / path)
            for path in self.loaded.spec.source.paths
        ]

    def files(self, setting: Setting) -> list[Path]:
        """Local files of the source, as far as they can be listed."""
        found: list[Path] = []
        for argument in self.arguments(setting):
            path = Path(argument.partition("::")[0])
            if path.is_dir():
                found += [file for file in sorted(path.rglob("*")) if file.is_file()]
            elif path.is_file():
                found.append(path)
        return found

    def nbytes(self, setting: Setting) -> int:
        """Bytes of the source: those asked for of a synthetic one, those there of files."""
        if setting.recipe is not None:
            return setting.recipe.nbytes
        return sum(file.stat().st_size for file in self.files(setting))

    def missing(self, settings: Iterable[Setting]) -> dict[Path, Recipe]:
        """Synthetic sources that are still to be made, by their folders."""
        wanted = {
            self.folder(setting): setting.recipe
            for setting in settings
            if setting.recipe is not None
        }
        return {folder: recipe for folder, recipe in wanted.items() if not folder.is_dir()}

    def make(self, settings: Iterable[Setting], tell: Callable[[str], None]) -> None:
        """Make the sources that are missing; each appears when it is whole. Raises UsageError and
        RunStopped.
        """
        for folder, recipe in self.missing(settings).items():
            tell(f"making {folder}, {show_bytes(recipe.nbytes)}")
            partial = folder.with_name(f".{folder.name}.part")
            shutil.rmtree(partial, ignore_errors=True)
            workers = Host.here().cpus
            given = (recipe.kind, partial, recipe.nbytes, recipe.files, recipe.format)
            try:
                synth(*given, workers=workers, seed=recipe.seed)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
            os.rename(partial, folder)

    def remove(self, settings: Iterable[Setting]) -> None:
        """Remove the synthetic sources, and the folders in tiers once they are empty."""
        for setting in settings:
            if setting.recipe is not None:
                shutil.rmtree(self.folder(setting), ignore_errors=True)
                _remove_empty(self.folder(setting).parent)
            if setting.output_tier is not None:
                _remove_empty(self._in_tier(setting.output_tier))


def _remove_empty(folder: Path) -> None:
    """Remove a folder of ours and those above it, as long as nothing is in them."""
    while folder.name in ("inputs", FOLDER) or folder.parent.name == FOLDER:
        try:
            folder.rmdir()
        except OSError:  # something is in it, or it has gone before
            return
        folder = folder.parent
