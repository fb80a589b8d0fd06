"""Shipped specs: those that come with the package, and how a spec is found by what users type."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from hyperslab.apps.experiment.design.factors import load_factors, load_installed_factors
from hyperslab.apps.experiment.design.spec import Loaded, load_spec, scales_of
from hyperslab.errors import UsageError, suggest

SUFFIX = ".toml"
PAPERS = {
    "dask-network": "links of a Dask cluster, after H. J. Kind et al., 2019",
    "dask-vs-spark": "engines, after M. Dugré, V. Hayot-Sasson, T. Glatard, 2019",
    "h5spark": "HDF5 into Spark, after J. Liu et al., 2016",
    "spark-on-lustre": "Spark's temporary files, after N. Chaimov et al., 2016",
    "storage-tiers": "where data lie, after V. Hayot-Sasson, S. T. Brown, T. Glatard, 2020",
}
"Families of specs, each after a paper whose claims `verdicts` judges."


@dataclass(frozen=True, slots=True)
class SpecFile:
    """The text of a spec, and what it is called."""

    name: str
    "Name without folder and suffix; of a shipped one as users type it."
    label: str
    "Name in errors."
    text: str
    folder: Path
    "Folder from which relative paths count."

    def load(
        self, scale: str | None, factors: Sequence[Path] = (), tiers: Sequence[str] = ()
    ) -> Loaded:
        """The spec at a scale; `tiers` are real ones, as NAME=DIR. Raises UsageError."""
        load_installed_factors()
        for path in factors:
            load_factors(path.absolute())
        return load_spec(self.text, self.label, self.name, self.folder, scale, factors, tiers)

    @property
    def title(self) -> str:
        """Title, as its text says it."""
        return self._said("title")

    @property
    def question(self) -> str:
        """What it is to decide; '' where its text does not say."""
        return self._said("question")

    def _said(self, field: str) -> str:
        return str(tomllib.loads(self.text).get(field, ""))

    @property
    def paper(self) -> str:
        """Family of a shipped spec."""
        return self.name.partition("/")[0]

    @property
    def scales(self) -> list[str]:
        return scales_of(self.text)


def shipped() -> list[SpecFile]:
    """All specs of the package, by name."""
    root = resources.files("hyperslab.apps.experiment") / "specs"
    found = [
        SpecFile(name, name, file.read_text(encoding="utf-8"), Path.cwd())
        for name, file in _files(root, "")
    ]
    return sorted(found, key=lambda one: one.name)


def find(given: str) -> SpecFile:
    """The spec that a name or a path means. Raises UsageError."""
    path = Path(given)
    if path.suffix == SUFFIX:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8"
            raise UsageError(f"SPEC {given}: {why}") from error
        return SpecFile(path.stem, given, text, path.absolute().parent)
    known = {one.name: one for one in shipped()}
    if given not in known:
        raise UsageError(
            f"SPEC {given}: there is no such spec{suggest(given, known)}; 'hyperslab experiment"
            f" list' names those that are shipped, a file of your own ends in {SUFFIX}"
        )
    return known[given]


def _files(folder: Traversable, above: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{above}{entry.name}/")
        elif entry.name.endswith(SUFFIX):
            yield above + entry.name.removesuffix(SUFFIX), entry
