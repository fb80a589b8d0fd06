"""Opening HDF5 files through h5py, here or in a remote store, and what h5py says of those that are
wrong.

A remote file is read by itself: libhdf5 would look for the files that its external links, external
storage and virtual datasets name in that same object, and take what it finds there, or nothing, for
their values. So these are refused.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from hyperslab.errors import FormatError, HyperslabError
from hyperslab.formats.hdf5.storage import register_plugins
from hyperslab.formats.hdf5.tree import datasets, flush
from hyperslab.storage.location import Remote
from hyperslab.storage.remote.file import RemoteIO


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """A file for reading; what this process has written to it, and libhdf5 kept in memory, is in
    the file from now.
    """
    register_plugins()
    with errors(path, ""), _unlocked(path) as file:
        flush(file.id)
        yield file


@contextmanager
def errors(path: str, name: str) -> Iterator[None]:
    """Turn what h5py raises about a corrupt or unreadable object into a FormatError; what this code
    raises is a bug.
    """
    where = path
    if name:
        where = f"{path}::{name}"
    wrong = (
        OSError,
        RuntimeError,
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
        OverflowError,
        NotImplementedError,
    )
    try:
        yield
    except HyperslabError:
        raise
    except (*wrong, MemoryError) as error:
        if not isinstance(error, OSError | MemoryError | RecursionError) and not _is_of_library(
            error
        ):
            raise
        text = str(error).strip("'\"") or type(error).__name__
        raise FormatError(
            f"{where}: HDF5 cannot read it: {text}; check it with 'h5dump -H {path}'"
        ) from error


def by_own_name(dataset: Any, file: Any, asked: str) -> Any:
    """A dataset that a file gave under a name, by a name that it has in the file that it lies in.

    HDF5 calls what lies behind a soft link by the name of that link, also where the way went on
    into another file: by that name it is not there, or is something else.
    """
    own = dataset.file
    name = str(dataset.name)
    if own == file and name.strip("/") == asked.strip("/"):
        return dataset
    if (found := own.get(name)) is not None and place_of(found) == place_of(dataset):
        return found
    found = next((other for other in datasets(own) if place_of(other) == place_of(dataset)), None)
    if found is None:
        raise FormatError(
            f"{file.filename}::{asked} leads to a dataset without a name in {own.filename}; "
            "name that file and the dataset in it"
        )
    return found


def place_of(item: Any) -> tuple[Any, ...]:
    """What tells an h5py object from all others, whatever links lead to it: its open file, and its
    place in that.
    """
    from h5py import h5g

    about = h5g.get_objinfo(item.id)
    return tuple(about.fileno), tuple(about.objno)


def file_of(dataset: Any, path: str) -> str:
    """The path of the file that a dataset lies in: `path`, unless an external link has led to
    another file.
    """
    if isinstance(path, Remote):
        return path
    linked = str(Path(dataset.file.filename).absolute())
    if linked == path or Path(linked).samefile(path):
        return path
    return linked


def require_inside(path: str, file: Any, objects: Iterable[Any]) -> None:
    """Raise FormatError for datasets of a remote file of which a part does not lie in it."""
    if isinstance(path, Remote) and not all(map(partial(_is_inside, file), objects)):
        raise FormatError(
            f"{path}: a link, a virtual dataset or external storage leads to other files, which are"
            " not followed from a remote one; copy the files to this machine"
        )


def _is_inside(file: Any, item: Any) -> bool:
    import h5py

    if not isinstance(item, h5py.Dataset):
        return bool(item.file == file)
    elsewhere = item.is_virtual and any(
        source.file_name != "." for source in item.virtual_sources()
    )
    return bool(
        item.file == file and not elsewhere and item.id.get_create_plist().get_external_count() == 0
    )


def _is_of_library(error: BaseException) -> bool:
    """Whether the last of the frames that are h5py's or this package's is h5py's; those of others
    are passed over.
    """
    frames = traceback.walk_tb(error.__traceback__)
    packages = [str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame, _ in frames]
    return [package for package in packages if package in ("h5py", "hyperslab")][-1:] == ["h5py"]


def _unlocked(path: str) -> Any:
    """A file without a lock on it, which network file systems may refuse; or as this process has
    opened it already, or as another writes it for readers meanwhile (SWMR).
    """
    import h5py

    if isinstance(path, Remote):
        return h5py.File(RemoteIO(path), "r")
    refusals: list[OSError] = []
    for locking, swmr in ((False, False), ("best-effort", False), (True, False), (False, True)):
        try:
            return h5py.File(path, "r", locking=locking, swmr=swmr)
        except OSError as error:
            refusals.append(error)
            if not any(
                words in str(refusals[0])
                for words in ("flag values don't match", "already open for write")
            ):
                raise
    raise refusals[0]
