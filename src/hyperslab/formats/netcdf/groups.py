"""The variables of a netCDF classic file, which is one group; of a MINC1 file its image."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hyperslab.formats.conventions.variables import Group, Variable
from hyperslab.formats.identity import size_and_time
from hyperslab.formats.netcdf import classic, minc
from hyperslab.formats.netcdf.header import LARGEST_NBYTES, ClassicHeader, read_header
from hyperslab.formats.netcdf.header import Variable as ClassicVariable
from hyperslab.formats.netcdf.image import image_group


def read_groups(
    path: str, wanted: str, tree: bool, without: Collection[str]
) -> tuple[dict[str, Group], tuple[int, int]]:
    """The one group, and size and time of the file as it was when this began; see
    `hyperslab.formats.groups`.
    """
    state = size_and_time(path)
    header = read_header(path, LARGEST_NBYTES)
    image = header.variables.get(minc.IMAGE1)
    if image is not None and minc.is_minc1(image, header.variables):
        group = image_group(classic.open(path, minc.IMAGE1))
    else:
        group = _group(header, without)
    return {wanted: group}, state


def _group(header: ClassicHeader, without: Collection[str]) -> Group:
    variables = [
        _variable(variable) for name, variable in header.variables.items() if name not in without
    ]
    unlimited = frozenset({header.record_dimension} - {""})
    return Group(tuple(variables), _attributes(header.attributes), unlimited)


def _variable(found: ClassicVariable) -> Variable:
    dtype = found.dtype.newbyteorder("=")
    attributes = _attributes(found.attributes)
    fill = attributes.get("_FillValue")
    if dtype.kind == "S" and isinstance(fill, str):
        attributes["_FillValue"] = fill.encode()
    return Variable(
        name=found.name,
        path=found.name,
        dims=found.dims,
        shape=found.shape,
        stored_shape=found.shape,
        dtype=dtype,
        attributes=attributes,
        encoding={"dtype": dtype},
    )


def _attributes(said: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes without the zeros that fill text up."""
    found = dict(said)
    for name, value in said.items():
        if isinstance(value, str):
            found[name] = value.replace("\0", "")
    return found
