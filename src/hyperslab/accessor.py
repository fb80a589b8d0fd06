"""`.hyperslab` of xarray's arrays, there as soon as both packages are imported, in either order.

xarray has its own engines open a file without a look at those of others, so that a file opened by
engine="netcdf4" would have no such accessor. To import xarray for it would make every start slow:
its import is awaited instead.
"""

from __future__ import annotations

import contextlib
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_XARRAY = "xarray"
_ACCESSOR = "hyperslab.connectors.affine"


def give() -> None:
    """Have xarray's arrays get the accessor, now or when xarray is imported."""
    if _XARRAY in sys.modules:
        _register()
    elif not any(isinstance(finder, _Awaiting) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Awaiting())


def _register() -> None:
    with contextlib.suppress(ImportError):  # xarray itself works without
        import_module(_ACCESSOR)


class _Awaiting:
    """A finder that finds xarray as the others do, and registers the accessor once it is there."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find xarray; leave all else to the other finders."""
        if name != _XARRAY:
            return None
        others = [one for one in sys.meta_path if one is not self and hasattr(one, "find_spec")]
        for finder in others:
            found = finder.find_spec(name, path, target)
            if found is not None:
                _follow(found.loader)
                return found
        return None


def _follow(loader: Any) -> None:
    """Register the accessor after a loader, which may be that of other modules, too, has made
    xarray.
    """
    make = getattr(loader, "exec_module", None)
    if make is None:  # a folder without files is no package that could have accessors
        return

    def make_and_register(module: ModuleType) -> None:
        make(module)
        if module.__name__ == _XARRAY:
            _register()

    loader.exec_module = make_and_register
