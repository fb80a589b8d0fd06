"""Groups of variables with dimensions and attributes, as netCDF sees the files of all formats.

What netCDF-4, other HDF5 and netCDF classic files hold is given as they store it, with the
attributes that say what the numbers mean. An image (NIfTI, MINC), whose meaning such attributes
cannot always say, is one variable named 'image'; so is the array of any format that has but one in
a file.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Mapping
from typing import Any, Protocol, cast

from hyperslab import formats
from hyperslab.errors import MissingGroup, UsageError
from hyperslab.formats.conventions.variables import Group, Listing
from hyperslab.formats.facts import Facts
from hyperslab.formats.identity import size_and_time
from hyperslab.formats.netcdf.image import image_group
from hyperslab.formats.table import facts_of
from hyperslab.storage.location import is_remote, local_path


class GroupReader(Protocol):
    """What the module offers that a format's facts name under `groups`."""

    def read_groups(
        self, path: str, wanted: str, tree: bool, without: Collection[str]
    ) -> tuple[Mapping[str, Group], tuple[int, int]]:
        """The group '/' or '/a/b', and for a `tree` all groups below it, parents first; and size
        and time of the file as these were read. Variables named in `without` are not looked at.

        Raises FormatError, MissingGroup.
        """


def read_groups(
    url: str,
    group: str = "",
    tree: bool = False,
    without: Collection[str] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> Listing:
    """List a group of a file and, for a `tree`, all groups below it; variables named in `without`
    are not looked at.

    `storage_options` are what fsspec is given with a URL. Raises FormatError for a file that cannot
    be read, UsageError for a Zarr store, MissingGroup for a group that is not there.
    """
    path = _place(url, storage_options)
    wanted = "/" + group.strip("/")
    facts = facts_of(formats.detect(path))
    if facts.xarray_engine:
        raise UsageError(
            f"{path} is a {facts.title} store, which xarray opens itself: say"
            f" engine='{facts.xarray_engine}'"
        )
    if wanted != "/" and not facts.has_groups:
        raise MissingGroup(f"{path} holds no group '{group}': only HDF5 files have groups")
    found, state = _found(path, facts, wanted, tree, without)
    return Listing(path, facts.name, found, *state)


def _found(
    path: str, facts: Facts, wanted: str, tree: bool, without: Collection[str]
) -> tuple[Mapping[str, Group], tuple[int, int]]:
    """The groups of a file, and its size and time as these were read."""
    if facts.groups:
        reader = cast(GroupReader, importlib.import_module(facts.groups))
        return reader.read_groups(path, wanted, tree, without)
    if not facts.is_one_array:
        raise UsageError(
            f"{path}: the variables of {facts.title} files are not listed; hyperslab.open reads"
            " its arrays"
        )
    state = size_and_time(path)
    source = formats.module(facts.name).open(path, "")
    return {wanted: image_group(source, has_named_axes=facts.has_named_axes)}, state


def _place(url: str, storage_options: Mapping[str, Any] | None) -> str:
    """The path of a file, or a remote object as it is now."""
    if not is_remote(url):
        return os.path.abspath(os.path.expanduser(local_path(url)))
    path, name = formats.find(url, storage_options)
    if name:
        raise UsageError(f"{path}::{name}: name the file alone, and the group in it by group=")
    return path
