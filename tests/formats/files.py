"""The real files on which the formats are tested."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import pytest

from hyperslab.formats import detect
from hyperslab.testing.formats import format_of_numbers
from tests.repetitions import repeats

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
EXAMPLES = ROOT / "examples" / "data"
EXTRA = os.environ.get("HYPERSLAB_EXTRA_DATA")


def real_files(kind: str, only: str = "", without: tuple[str, ...] = ()) -> list[Any]:
    """Every real file of a format as a test parameter: the project's own, and those of the extra
    folder.

    `only` and `without` are the ends of names that are taken and left out.
    """
    found = [
        pytest.param(path, id=name)
        for path, name in _named(kind)
        if path.parent.name != "corrupt"
        and path.name.endswith(only)
        and not path.name.endswith(without)
    ]
    if EXTRA:
        return found
    reason = (
        "no extra real files; set HYPERSLAB_EXTRA_DATA to a folder of NIfTI, HDF5, netCDF and MINC"
        " files"
    )
    return [*found, pytest.param(Path(), id="extra", marks=pytest.mark.skip(reason=reason))]


LARGE = ("ref_hdf5_compat1.nc", "extra-jhdf_test_large_group_latest.hdf5")
"Files of thousands of variables, whose list takes seconds."


LISTED = "all that is in a file is listed: TestManyDatasets, TestManyVariables"


def large_real_files(kind: str, only: str = "", without: tuple[str, ...] = ()) -> list[Any]:
    """Those of LARGE that are here, or one that is skipped."""
    found = [case for case in real_files(kind, only, without) if case.id in LARGE]
    return found or real_files(kind, only, without)[-1:]


def few_real_files(kind: str, only: str = "", without: tuple[str, ...] = ()) -> list[Any]:
    """All of them, of which those of LARGE repeat a point: what is in them is listed by a test of
    them alone, and read in other files.
    """
    point = repeats(LISTED)
    return [
        pytest.param(*case.values, id=case.id, marks=[*case.marks, point])
        if case.id in LARGE
        else case
        for case in real_files(kind, only, without)
    ]


ALIKE = ("colin27_ch2_T1w.nii.gz", "icbm152_sym09a_brain_T1w.nii.gz")
"Large compressed images that are read as colin27_ch2bet_brain.nii.gz is."


def unlike_real_files(kind: str) -> list[Any]:
    """All of a format, of which those of ALIKE repeat the point of a suite."""
    point = repeats("a large compressed image: colin27_ch2bet_brain.nii.gz")
    return [
        pytest.param(*case.values, id=case.id, marks=[*case.marks, point])
        if case.id in ALIKE
        else case
        for case in real_files(kind)
    ]


@functools.cache
def _named(kind: str) -> list[tuple[Path, str]]:
    """The files of a format, each with the name of its parameter."""
    found = [(path, path.name) for folder in (DATA, EXAMPLES) for path in _files(folder, kind)]
    if EXTRA:
        known = _own_names()
        more = [path for path in _files(Path(EXTRA), kind) if path.name not in known]
        found += [(path, f"extra-{path.name}") for path in more]
    return found


def _files(folder: Path, kind: str) -> list[Path]:
    return [path for path, found in _formats(folder).items() if found == kind]


@functools.cache
def _formats(folder: Path) -> dict[Path, str]:
    """The files in a folder and below, each with its format; '' where it holds no numbers."""
    return {path: _format_of(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def _format_of(path: Path) -> str:
    """The format of a file, without a look at all that is in those of LARGE."""
    if path.name in LARGE or f"extra-{path.name}" in LARGE:
        return detect(str(path))
    return format_of_numbers(path)


@functools.cache
def _own_names() -> set[str]:
    """Names in the project's own folders, which the extra one may hold again."""
    return {path.name for folder in (DATA, EXAMPLES) for path in _formats(folder)}
