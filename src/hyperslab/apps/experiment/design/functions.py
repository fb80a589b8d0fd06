"""Functions of the user's: the source files that they come from, found without importing any.

A trial imports a module from the folder in which the command was given, or from Python's path, so
they are looked for there; then beside the spec, so that a report can be made from any folder.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from hyperslab.errors import UsageError, suggest
from hyperslab.plan.definitions import bound_in
from hyperslab.plan.function import digest_of_bytes, imported_files, package_of

_PACKAGE = __name__.partition(".")[0]


def digests_of(function: str, folder: Path) -> dict[str, str]:
    """SHA-256 of the source files of `module:name` or `/path/file.py:name`: its own, and those of
    its neighbours that it imports, by their paths from its folder; none of this package, whose
    version is recorded, nor of what is compiled in. `folder` is that of the spec. Raises UsageError
    for a module that is not there, and OSError.
    """
    place = function.rpartition(":")[0]
    if place.partition(".")[0] == _PACKAGE:
        return {}
    file, package = _located(place, folder)
    if not file:
        return {}
    beside: set[str] = set()
    with suppress(SyntaxError, ValueError):  # trials say what is wrong with it
        beside = imported_files(file, package, partial(_neighbour, _root(file, package)))
    home = Path(file).parent
    return {
        str(Path(one).relative_to(home)): digest_of_bytes(Path(one).read_bytes())
        for one in sorted({file, *beside})
    }


def missing_name(function: str, folder: Path) -> str:
    """Why a function cannot be loaded, as a clause, as far as its file tells that is not run; ''
    where it tells nothing. Raises as `digests_of`.
    """
    place, _, name = function.rpartition(":")
    file = Path(_located(place, folder)[0])
    if file.suffix != ".py":
        return ""
    try:
        known = bound_in(file)
    except SyntaxError as error:
        return f"{file}, line {error.lineno}: {error.msg}"
    except ValueError as error:
        return f"{file}: {error}"
    first = name.partition(".")[0]
    if known is None or first in known:
        return ""
    return f"{file} has no '{first}'{suggest(first, known)}"


def _located(place: str, folder: Path) -> tuple[str, str]:
    """The file of a module, or of a path, and the package that it is in. Raises UsageError."""
    if place.endswith(".py"):
        return place, ""
    spec = _spec_of(place, [os.getcwd()]) or _spec_of(place, [str(folder)])
    if spec is None:
        raise UsageError(
            f"workload {place}: there is no such module in {os.getcwd()}, beside the spec or on the"
            " Python path"
        )
    file = _file_of(spec)
    return file, package_of(place, file)


def _root(file: str, package: str) -> Path:
    """The folder that a package lies in, of which a module is; else the module's own."""
    root = Path(file).parent
    for _ in filter(None, package.split(".")):
        root = root.parent
    return root


def _neighbour(root: Path, module: str, folder: Path) -> str | None:
    """The file of a module that one in a folder imports, whose package lies in another one."""
    spec = _spec_of(module, [str(folder), str(root), os.getcwd()])
    if spec is None:
        return None
    return _file_of(spec) or None


def _file_of(spec: ModuleSpec) -> str:
    """The file of a module; '' of one that is compiled in, or a mere folder."""
    if not spec.has_location:
        return ""
    return spec.origin or ""


def _spec_of(module: str, first: Sequence[str]) -> ModuleSpec | None:
    """Where a module is, looked for in some folders first. Packages above it are not imported, so
    each part is looked for by its own name where the part before it is.
    """
    top, *inner = module.split(".")
    spec = PathFinder.find_spec(top, [*first, *sys.path])
    if spec is None:
        with suppress(ImportError, ValueError):  # no module has such a name
            spec = importlib.util.find_spec(top)
    for part in inner:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(part, list(spec.submodule_search_locations))
    return spec
