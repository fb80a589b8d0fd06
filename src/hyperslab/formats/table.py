"""The table of formats: those of this package, and those that installed packages bring.

A package brings one by an entry point of the group 'hyperslab.formats' that is the format's
`Facts`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator

from hyperslab.errors import UsageError
from hyperslab.formats.facts import Facts, Magic, Suffix
from hyperslab.machine.plugins import entry_points
from hyperslab.storage.zarr_names import ROOTS

ENTRY_POINTS = "hyperslab.formats"
"Group of the entry points by which packages bring formats."

_PAIR = Magic(
    b"ni1\0",
    344,
    refusal="belongs to a .hdr/.img pair, which is not supported; convert it to one .nii file",
    beside=(".hdr", ".img"),
)

BUILT_IN: tuple[Facts, ...] = (
    Facts(
        name="nifti",
        module="hyperslab.formats.nifti",
        title="NIfTI",
        supported="NIfTI-1 and NIfTI-2 (.nii, .nii.gz)",
        suffixes=(
            Suffix(".nii", "nii", is_written_in_place=True),
            Suffix(".nii.gz", "nii.gz", is_compressed=True),
        ),
        magic=(
            Magic(b"n+1\0", 344),
            Magic(b"n+2\0", 4),
            _PAIR,
            Magic(b"ni2\0", 4, refusal=_PAIR.refusal, beside=_PAIR.beside),
        ),
        is_one_array=True,
        is_stream=True,
        has_named_axes=False,
        has_own_header=True,
        libraries=(("nibabel", "hyperslab"),),
    ),
    Facts(
        name="hdf5",
        module="hyperslab.formats.hdf5",
        title="HDF5",
        supported="HDF5 (.h5, .hdf5)",
        suffixes=(
            Suffix(".h5", "h5"),
            Suffix(".hdf5", "h5"),
            Suffix(".he5", "h5"),
            Suffix(".nc", "nc"),
            Suffix(".nc4", "nc"),
            Suffix(".cdf", "nc"),
            Suffix(".mnc", title="MINC"),
        ),
        # HDF5 File Format Specification, section II.A: at byte 0, 512, 1024, 2048, ...
        magic=(Magic(b"\x89HDF\r\n\x1a\n", doubling=512),),
        has_chunks=True,
        has_deflate=True,
        has_parts=True,
        holds_several=True,
        has_groups=True,
        groups="hyperslab.formats.hdf5.groups",
        libraries=(("h5py", "hyperslab"), ("hdf5plugin", "hyperslab[codecs]")),
    ),
    Facts(
        name="netcdf",
        module="hyperslab.formats.netcdf.classic",
        title="netCDF",
        supported="netCDF (classic, 64-bit, netCDF-4), MINC (1, 2)",
        magic=(Magic(b"CDF\x01"), Magic(b"CDF\x02"), Magic(b"CDF\x05")),
        groups="hyperslab.formats.netcdf.groups",
    ),
    Facts(
        name="zarr",
        module="hyperslab.formats.zarr",
        title="Zarr",
        supported="Zarr (2, 3; directories)",
        suffixes=(Suffix(".zarr", "zarr"),),
        documents=ROOTS,
        has_remote_stores=True,
        has_chunks=True,
        holds_several=True,
        says_of_groups=True,
        xarray_engine="zarr",
        libraries=(("zarr", "hyperslab[zarr]"),),
    ),
)
"The formats of this package."

MEMORY = Facts(
    name="memory",
    module="hyperslab.formats.memory",
    title="memory",
    supported="arrays in memory",
    is_one_array=True,
    has_named_axes=False,
)
"Arrays in memory, which are no files, and so no line of the table."

_OWN = {one.name: one for one in (*BUILT_IN, MEMORY)}


@functools.cache
def known() -> dict[str, Facts]:
    """All formats of files by their names, those of this package first."""
    found = {one.name: one for one in BUILT_IN}
    for label, one in _installed():
        taken = found.get(one.name, _OWN.get(one.name))
        if taken is None:
            found[one.name] = one
        elif taken != one:
            _warn(label, f"a format named '{one.name}' exists already")
    return found


def facts_of(name: str) -> Facts:
    """The facts of a format. Raises UsageError for a name that no format has."""
    own = _OWN.get(name)
    if own is not None:
        return own
    if name not in known():
        raise UsageError(f"'{name}' is not a format; the formats are {', '.join(known())}")
    return known()[name]


@functools.cache
def suffixes() -> dict[str, tuple[Suffix, Facts]]:
    """Ends of the names of array files, and the format in which such a file is written."""
    found: dict[str, tuple[Suffix, Facts]] = {}
    for one in known().values():
        for suffix in one.suffixes:
            found.setdefault(suffix.text, (suffix, one))
    return found


def suffix_of(path: str) -> Suffix | None:
    """The longest known suffix in which a name ends, or None."""
    name = path.lower()
    matches = [text for text in suffixes() if name.endswith(text)]
    if not matches:
        return None
    return suffixes()[max(matches, key=len)][0]


def facts_of_file_name(path: str) -> Facts | None:
    """The format in which a file of this name is written, or None for an unknown suffix."""
    suffix = suffix_of(path)
    if suffix is None:
        return None
    return suffixes()[suffix.text][1]


@functools.cache
def written() -> dict[str, str]:
    """Words of --format, each with the usual end of the names of its files."""
    found: dict[str, str] = {}
    for suffix, _ in suffixes().values():
        if suffix.word:
            found.setdefault(suffix.word, suffix.text)
    return found


def written_as(word: str) -> tuple[Suffix, Facts]:
    """The suffix and the format that a word of --format stands for. Raises UsageError for none."""
    if word not in written():
        raise UsageError(f"--format {word}: choose one of {', '.join(written())}")
    return suffixes()[written()[word]]


def say_words(default: str = "") -> str:
    """Words of --format for a sentence about it; `default` is said to be the one that is meant
    where none is given.
    """
    said = [f"{word} (the default)" if word == default else word for word in written()]
    *more, last = said
    return f"{', '.join(more)} or {last}"


def brought() -> list[Facts]:
    """The formats that other packages bring."""
    return [one for one in known().values() if one not in BUILT_IN]


def is_store_name(path: str) -> bool:
    """Whether arrays of this name are directories."""
    found = facts_of_file_name(path.rstrip("/"))
    return found is not None and bool(found.documents)


def store_of(url: str) -> Facts | None:
    """The format of the directory of arrays that a URL names, or is in; None for none."""
    *above, last = url.lower().partition("?")[0].rstrip("/").split("/")
    parts = [last]
    if suffix_of(last) is None:
        parts += reversed(above)
    for part in parts:
        if is_store_name(part):
            return facts_of_file_name(part)
    return None


HOLDS_ANY = "h5"
"Word of --format for files that hold arrays of any shape and dtype of numbers."


def stem_of(name: str) -> str:
    """The name of a file without what says its format."""
    for suffix in (".gz", *suffixes(), ".hdf"):
        name = name.removesuffix(suffix)
    return name


def supported() -> str:
    """The kinds of files that are read, in words."""
    *more, last = [one.supported for one in known().values()]
    return f"{', '.join(more)} and {last}"


def _installed() -> Iterator[tuple[str, Facts]]:
    """The formats that other packages bring, each with the name of its entry point; one that does
    not load, or whose facts are refused, is left out with a warning.
    """
    for entry in entry_points(ENTRY_POINTS):
        try:
            found = entry.load()
        except Exception as error:  # noqa: BLE001  # whatever a package raises when it is imported
            _warn(entry.name, f"{entry.value} cannot be loaded ({error})")
            continue
        if isinstance(found, Facts):
            yield entry.name, found
        else:
            _warn(entry.name, f"{entry.value} is not a hyperslab.formats.facts.Facts")


def _warn(name: str, why: str) -> None:
    text = f"the format '{name}' is left out: {why}; fix or remove its package"
    warnings.warn(text, UserWarning, stacklevel=2)
