"""Inputs: what trials read. Synthetic sources are made before the first trial."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hyperslab.apps.bids.made import make_dataset
from hyperslab.apps.experiment.design.named import is_emulated
from hyperslab.apps.experiment.design.setting import BIDS, Folder, Recipe, Setting
from hyperslab.apps.experiment.design.spec import Loaded
from hyperslab.blocks.gathering import expand
from hyperslab.errors import Missing, RunStopped, UsageError
from hyperslab.formats.identity import identify_path
from hyperslab.machine.host import Host
from hyperslab.storage.location import is_remote
from hyperslab.storage.renaming import synchronise, synchronise_tree
from hyperslab.units import show_bytes, show_count
from hyperslab.workloads.synth import synth

FOLDER = f"hyperslab-experiment-{os.getuid()}"
"Folder in a tier, of which other users have their own; each experiment has one in there."


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
            above = self._in_tier(self.tier(setting.input_tier)) / "inputs"
        return above / setting.recipe.name

    def out(self, setting: Setting, trial: Path) -> Path:
        """Where a trial writes, whose folder in the experiment is `trial`."""
        if setting.output_tier is None:
            return trial / "out"
        return self._in_tier(self.tier(setting.output_tier)) / trial.name

    def tier(self, level: Path) -> Path:
        """Directory of a level of a factor: that of the tier of this name, or the level itself."""
        named = self.loaded.spec.tiers.get(str(level))
        if named is None:
            return level
        if named.path is None:
            return self.root / "tiers" / str(level)
        if not named.path:
            return self.root
        return self.loaded.folder / named.path

    def emulated(self, settings: Iterable[Setting]) -> list[str]:
        """Names of the emulated tiers of settings."""
        levels = [
            str(level)
            for setting in settings
            for level in (
                setting.input_tier,
                setting.output_tier,
                *(folder.level for folder in setting.folders),
            )
            if level is not None
        ]
        named = self.loaded.spec.tiers
        return [name for name in dict.fromkeys(levels) if is_emulated(named, name)]

    def backing(self, name: str) -> Path:
        """Directory that holds the files of an emulated tier."""
        beneath = self.loaded.spec.tiers[name].backing
        if beneath:
            return self._in_tier(Path(beneath)) / name
        return self.root / "tiers" / f".{name}"

    def lies_in(self, folder: Path) -> Path:
        """Where the files of a folder lie, which may be beneath an emulated tier."""
        tiers = self.root / "tiers"
        if tiers not in folder.parents:
            return folder
        name, *rest = folder.relative_to(tiers).parts
        return self.backing(name).joinpath(*rest)

    def flags(self, setting: Setting) -> list[str]:
        """Flags of the command."""
        flags = list(setting.flags)
        for folder in setting.folders:
            flags += [folder.flag, folder.value.format(self._directory(folder))]
        return flags

    def _directory(self, folder: Folder) -> Path:
        """The directory that a run is told of."""
        tier = self.tier(folder.level)
        if folder.is_ours:
            return self._in_tier(tier) / "trial"
        return tier

    def clear(self, setting: Setting) -> None:
        """Remove the folders that a trial had for itself."""
        for folder in setting.folders:
            if folder.is_ours:
                own = self._directory(folder)
                shutil.rmtree(own, ignore_errors=True)
                _remove_empty(own.parent)

    def places(self, setting: Setting) -> tuple[str, str]:
        """Paths of the storage that a trial reads from, and that it writes to."""
        target = self._tier_or_own(setting.output_tier)
        if setting.recipe is not None:
            return self._tier_or_own(setting.input_tier), target
        if not self.loaded.spec.source.paths:
            return target, target
        first = self.arguments(setting)[0].partition("::")[0]
        if is_remote(first) or Path(first).is_dir():
            return first, target
        return str(Path(first).parent), target

    def between(self, setting: Setting) -> str:
        """Path of the storage to which a trial's functions hand intermediate results, where they
        do, and that is another one than inputs or outputs have; else ''.
        """
        for folder in setting.folders:
            path = str(self.tier(folder.level))
            if folder.is_ours and self.places(setting) != (path, path):
                return path
        return ""

    def places_asked(self, settings: Iterable[Setting]) -> dict[str, bool]:
        """All such paths, and whether they are the experiment's to write to."""
        asked: dict[str, bool] = {}
        for setting in settings:
            source, target = self.places(setting)
            asked[target] = True
            asked[source] = asked.get(source, False) or setting.recipe is not None
            if between := self.between(setting):
                asked[between] = True
        return asked

    def _tier_or_own(self, level: Path | None) -> str:
        if level is None:
            return str(self.root)
        return str(self.tier(level))

    def _in_tier(self, tier: Path) -> Path:
        """Folder of this experiment in a tier: another one of the same name has its own."""
        whole = hashlib.sha256(os.fsencode(self.root)).hexdigest()
        return tier / FOLDER / f"{self.root.name}-{whole[:8]}"

    def arguments(self, setting: Setting) -> list[str]:
        """Sources as the command is given them."""
        if setting.recipe is not None:
            return [str(self.folder(setting))]
        return [
            path if is_remote(path) else str(self.loaded.folder / path)
            for path in self.loaded.spec.source.paths
        ]

    def files(self, setting: Setting) -> list[Path]:
        """Local files of the source, as far as they can be listed."""
        places = self.arguments(setting)
        if setting.recipe is None:
            places = [one for argument in places for one in _named_by(argument)]
        found: list[Path] = []
        for place in places:
            path = Path(place.partition("::")[0])
            if path.is_dir():
                found += [file for file in sorted(path.rglob("*")) if file.is_file()]
            elif path.is_file():
                found.append(path)
        return list(dict.fromkeys(found))

    def state(self, setting: Setting) -> str:
        """What the user's files are like, in words that differ once these have changed: by their
        names from the spec's folder, sizes and some pages of each, so that copies are the same; ''
        without any. Raises OSError and SourceChanged.
        """
        if setting.recipe is not None or not self.loaded.spec.source.paths:
            return ""
        files = self.files(setting)
        told = [f"{self._name(file)} {identify_path(str(file), b'').version}" for file in files]
        digest = hashlib.sha256("\n".join(told).encode(errors="surrogateescape")).hexdigest()
        nbytes = sum(file.stat().st_size for file in files)
        return f"{show_count(len(files), 'file')}, {show_bytes(nbytes)} (state {digest[:12]})"

    def _name(self, file: Path) -> str:
        """Name of a file of the user's: its path from the spec's folder, if it lies in there."""
        if file.is_relative_to(self.loaded.folder):
            return str(file.relative_to(self.loaded.folder))
        return str(file)

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
        return {folder: recipe for folder, recipe in wanted.items() if not self._is_there(folder)}

    def _is_there(self, folder: Path) -> bool:
        """Whether a source is there, also beneath a tier whose program has died."""
        try:
            return folder.is_dir()
        except OSError:
            return self.lies_in(folder).is_dir()

    def make(self, settings: Iterable[Setting], tell: Callable[[str], None]) -> None:
        """Make the sources that are missing; each appears when all of it is on storage. Raises
        UsageError and RunStopped.
        """
        for folder, recipe in self.missing(settings).items():
            tell(f"making {folder}, {show_bytes(recipe.nbytes)}")
            partial = _partial(folder)
            shutil.rmtree(partial, ignore_errors=True)
            try:
                _make(recipe, partial)
                _publish(partial, folder)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise

    def remove(self, settings: Sequence[Setting]) -> None:
        """Remove the synthetic sources, and the folders in tiers once they are empty; of emulated
        tiers that are not there now all files. What has the name of a source is whole at any time.
        """
        for setting in settings:
            if setting.recipe is not None:
                _remove_source(self.folder(setting))
            if setting.output_tier is not None:
                _remove_empty(self._in_tier(self.tier(setting.output_tier)))
        for name in self.emulated(settings):
            if not os.path.ismount(self.tier(Path(name))):
                shutil.rmtree(self.backing(name), ignore_errors=True)


def _named_by(argument: str) -> list[str]:
    """Files and stores that an argument of a run stands for: a glob, a list, a folder; none of a
    URL, nor where nothing is there.
    """
    if is_remote(argument):
        return []
    try:
        return expand(argument, are_there=False)
    except (UsageError, Missing):  # trials say so
        return []


def _partial(folder: Path) -> Path:
    """Folder of a source that is not whole: not yet, or no more."""
    return folder.with_name(f".{folder.name}.part")


def _remove_source(folder: Path) -> None:
    """Remove a source, or what is left of one by a runner that has died."""
    partial = _partial(folder)
    if folder.is_dir():
        shutil.rmtree(partial, ignore_errors=True)
        with suppress(OSError):  # what may not be renamed may not be removed either
            os.rename(folder, partial)
    shutil.rmtree(partial, ignore_errors=True)
    _remove_empty(folder.parent)


def _make(recipe: Recipe, folder: Path) -> None:
    """Make a synthetic source. Raises UsageError and RunStopped."""
    if recipe.kind == BIDS:
        make_dataset(folder, recipe.files, recipe.nbytes, recipe.seed)
        return
    given = (recipe.kind, folder, recipe.nbytes, recipe.files, recipe.format)
    synth(*given, workers=Host.here().cpus, seed=recipe.seed)


def _publish(partial: Path, folder: Path) -> None:
    """Give a source its name, which it keeps when the power fails. Raises RunStopped."""
    try:
        synchronise_tree(partial)
        os.rename(partial, folder)
        synchronise(folder.parent, only_names=True)
    except OSError as error:
        raise RunStopped(
            f"making {folder} stopped: {error.strerror}; make room there, then go on with"
            " 'hyperslab experiment resume'"
        ) from error


def _remove_empty(folder: Path) -> None:
    """Remove a folder of ours and those above it, as long as nothing is in them."""
    while folder.name in ("inputs", FOLDER) or folder.parent.name == FOLDER:
        try:
            folder.rmdir()
        except OSError:  # something is in it, or it has gone before
            return
        folder = folder.parent
