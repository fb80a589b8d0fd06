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
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

_families: dict[str, dict[str, ModuleType]] = {}
"Modules from beside each user's file, by the name that this has as a module."
_swapping = threading.RLock()
_PACKAGES = frozenset({"site-packages", "dist-packages"})
_OURS = __name__.partition(".")[0]


def builtins_of(family: str, folder: Path) -> dict[str, Any]:
    """The built-in names of a user's file in a folder, whose imports take what lies beside it."""
    own = _families.setdefault(family, {})

    def from_beside(name: str, *more: Any, **named: Any) -> Any:
        is_loaded = name in own and sys.modules.get(name) is own[name]
        if is_loaded or not _lies_in(folder, name.partition(".")[0]):
            return builtins.__import__(name, *more, **named)
        with _own(own, folder):
            return builtins.__import__(name, *more, **named)

    return {**vars(builtins), "__import__": from_beside}


def _lies_in(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name).is_dir()


@contextmanager
def _own(own: dict[str, ModuleType], folder: Path) -> Iterator[None]:
    """Put modules from beside other files out of sight and search the folder before those, as long
    as something is imported; whoever has imported others of the same names keeps them.
    """
    with _swapping:
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
        importlib.invalidate_caches()
        try:
            yield
        finally:
            found = _named(names)
            own.update({n: one for n, one in found.items() if folder in _place(one).parents})
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
