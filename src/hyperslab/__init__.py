"""hyperslab: run a function over arrays larger than memory, on any engine, and see where the time went."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyperslab.connectors.dask import to_dask
    from hyperslab.conversion import convert
    from hyperslab.difference import diff
    from hyperslab.driver import Result, run
    from hyperslab.encoding import Encoding
    from hyperslab.errors import HyperslabError
    from hyperslab.gathering import gather
    from hyperslab.manage import cancel, clean, status, verify
    from hyperslab.partition import Rule
    from hyperslab.pipeline import Fold, Pipeline
    from hyperslab.prepared import Options, prepare
    from hyperslab.slab import Hyperslab
    from hyperslab.uploading import upload
    from hyperslab.view import ArrayView, open  # noqa: A004  # as numpy and zarr have their own load and open
    from hyperslab.workloads.synth import synth

__version__ = "0.1.0"

_PLACES = {
    "conversion": ("convert",),
    "difference": ("diff",),
    "connectors.dask": ("to_dask",),
    "driver": ("Result", "run"),
    "encoding": ("Encoding",),
    "errors": ("HyperslabError",),
    "gathering": ("gather",),
    "partition": ("Rule",),
    "manage": ("cancel", "clean", "status", "verify"),
    "prepared": ("Options", "prepare"),
    "pipeline": ("Fold", "Pipeline"),
    "slab": ("Hyperslab",),
    "uploading": ("upload",),
    "view": ("ArrayView", "open"),
    "workloads.synth": ("synth",),
}
__all__ = [
    "ArrayView",
    "Encoding",
    "Fold",
    "Hyperslab",
    "HyperslabError",
    "Options",
    "Pipeline",
    "Result",
    "Rule",
    "__version__",
    "cancel",
    "clean",
    "convert",
    "diff",
    "gather",
    "open",
    "prepare",
    "run",
    "status",
    "synth",
    "to_dask",
    "upload",
    "verify",
]


def __dir__() -> list[str]:
    """The public names, also those that are not imported yet, and what modules have."""
    return sorted({*__all__, *globals()})


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that `import hyperslab` starts nothing."""
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"hyperslab.{module}"), name)
    raise AttributeError(f"module 'hyperslab' has no attribute '{name}'")
