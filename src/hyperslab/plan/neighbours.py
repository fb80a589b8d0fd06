"""Neighbours: modules that a user's file imports from its own folder. Another file may have others
of the same names in its folder, or had them before they were edited: each file gets its own, when
it is loaded and when its functions import while they run.

Held by tests/plan/test_neighbours.py.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

_families: dict[str, dict[str, ModuleType]] = {}
"Modules from beside each user's file, by the name that this has as a module."
_swapping = threading.RLock()
_PACKAGES = frozenset({"site-packages", "dist-packages"})
_OURS = __name__.partition(".")[0]
_PARAMETERS = ("globals", "locals", "fromlist", "level")
"Parameters of __import__ behind the name."


def builtins_of(family: str, folder: Path) -> dict[str, Any]:
    """The built-in names of a user's file in a folder, whose imports take what lies beside it, as
    do those of what lies there.
    """
    own = _families.setdefault(family, {})
    found: dict[str, Any] = dict(vars(builtins))
    finder = _Finder(folder, found)

    def from_beside(name: str, *more: Any, **named: Any) -> Any:
        asked = dict(zip(_PARAMETERS, more, strict=False)) | named
        level = asked.get("level", 0)
        whole = name
        if level:
            whole = str((asked.get("globals") or {}).get("__package__") or "")
        if not whole or not _lies_in(folder, whole.partition(".")[0]):
            return builtins.__import__(name, **asked)
        with _swapping:
            wanted = asked.get("fromlist") or ()
            is_loaded = not level and name in own and _are_there(own, name, wanted)
            if is_loaded or finder in sys.meta_path:
                return builtins.__import__(name, **asked)
            with _own(own, finder):
                return builtins.__import__(name, **asked)

    found["__import__"] = from_beside
    return found


def bring(family: str) -> None:
    """Let modules from beside a user's file go by their names, by which pickles of theirs are read:
    those from beside another one go.
    """
    with _swapping:
        for name, module in _families.get(family, {}).items():
            if name not in sys.modules or _is_of_a_family(sys.modules[name]):
                sys.modules[name] = module


def _is_of_a_family(module: ModuleType) -> bool:
    """Whether a user's file has imported it, and not the user's program."""
    return isinstance(getattr(module.__spec__, "loader", None), _Loader)


def _are_there(own: Mapping[str, ModuleType], name: str, wanted: Sequence[str]) -> bool:
    """Whether all modules of a family go by their names, and one of them has what is wanted."""
    known = sys.modules
    return all(known.get(other) is module for other, module in own.items()) and all(
        hasattr(own[name], each) for each in wanted
    )


def _lies_in(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name).is_dir()


class _Loader(SourceFileLoader):
    """Gives a module the built-in names of the user's file beside it."""

    def __init__(self, name: str, path: str, names: Mapping[str, Any]) -> None:
        super().__init__(name, path)
        self._names = names

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = self._names
        super().exec_module(module)


@dataclass(slots=True, eq=False)
class _Finder:
    """Finds modules in a folder, for one thread: those that others import are none of its own."""

    folder: Path
    names: Mapping[str, Any]
    "Built-in names of these modules."
    thread: int = 0

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if threading.get_ident() != self.thread:
            return None
        found = PathFinder.find_spec(name, path, target)
        if found is None or type(found.loader) is not SourceFileLoader:
            return found
        place = Path(found.loader.path)
        if self.folder in place.parents and _PACKAGES.isdisjoint(place.parts):
            found.loader = _Loader(found.loader.name, found.loader.path, self.names)
        return found


@contextmanager
def _own(own: dict[str, ModuleType], finder: _Finder) -> Iterator[None]:
    """Put modules from beside other files out of sight and search the folder before those, as long
    as something is imported; whoever has imported others of the same names keeps them.
    """
    folder = finder.folder
    names = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}
    known = _named(names)
    of_families = {id(one) for family in _families.values() for one in family.values()}
    aside = {
        name: module
        for name, module in known.items()
        if id(module) in of_families or folder not in _place(module).parents
    }
    for name in aside:
        del sys.modules[name]
    sys.modules.update(own)
    path = list(sys.path)
    sys.path[:] = sorted([*path, str(folder)], key=lambda place: _rank(place, folder))
    after_frozen = next(n for n, one in enumerate(sys.meta_path) if one is PathFinder)
    finder.thread = threading.get_ident()
    sys.meta_path.insert(after_frozen, finder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        found = _named(names)
        own.update({n: one for n, one in found.items() if folder in _place(one).parents})
        sys.meta_path.remove(finder)
        sys.path[:] = path
        sys.modules.update(aside)


def _rank(place: str, folder: Path) -> int:
    """Rank of a place where modules are searched: what is installed, the folder, all others."""
    if place.startswith((f"{sys.base_prefix}{os.sep}", f"{sys.prefix}{os.sep}")):
        return 0
    return 1 if place == str(folder) else 2


def _named(names: Collection[str]) -> dict[str, ModuleType]:
    """Modules of users that go by these names, and what lies in them."""
    return {
        name: module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in names and _is_users(name, module)
    }


def _is_users(name: str, module: ModuleType) -> bool:
    """Whether a module is none of Python, of this package, and of others that are installed."""
    top = name.partition(".")[0]
    if top == _OURS or top in sys.stdlib_module_names or top == "__main__":
        return False
    place = _place(module)
    return place.suffix == ".py" and _PACKAGES.isdisjoint(place.parts)


def _place(module: ModuleType) -> Path:
    return Path(getattr(module, "__file__", None) or "/")
