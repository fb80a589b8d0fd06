"""hyperslab: run a function over arrays larger than memory, on any engine, and see where the time
went.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hyperslab import accessor

if TYPE_CHECKING:
    from hyperslab.apps.commands.running import run_commands
    from hyperslab.apps.conversion import convert
    from hyperslab.apps.difference import diff
    from hyperslab.apps.locality import check_locality
    from hyperslab.apps.scratch import scratch
    from hyperslab.apps.tiers import tiers
    from hyperslab.arrays.encoding import Encoding
    from hyperslab.arrays.partition import Rule
    from hyperslab.arrays.slab import Hyperslab
    from hyperslab.blocks.gathering import gather

    # Our own open, as numpy has its own load and zarr its own open.
    from hyperslab.blocks.view import ArrayView, open  # noqa: A004
    from hyperslab.connectors.dask import to_dask
    from hyperslab.driver.continuing import submit
    from hyperslab.driver.manage import cancel, clean, status, verify, wait
    from hyperslab.driver.options import Options
    from hyperslab.driver.prepare import prepare
    from hyperslab.driver.result import Result
    from hyperslab.driver.run import run
    from hyperslab.errors import HyperslabError, LocalityWarning, TasksFailed
    from hyperslab.plan.command import CommandTask
    from hyperslab.plan.pipeline import Fold, Pipeline
    from hyperslab.storage.remote.uploading import upload
    from hyperslab.storage.tiers.tier import Tier
    from hyperslab.workloads.synth import synth

__version__ = "0.1.0"

_PLACES = {
    "apps.commands.running": ("run_commands",),
    "apps.conversion": ("convert",),
    "apps.difference": ("diff",),
    "apps.locality": ("check_locality",),
    "apps.scratch": ("scratch",),
    "apps.tiers": ("tiers",),
    "connectors.dask": ("to_dask",),
    "driver.continuing": ("submit",),
    "driver.result": ("Result",),
    "driver.run": ("run",),
    "arrays.encoding": ("Encoding",),
    "errors": ("HyperslabError", "LocalityWarning", "TasksFailed"),
    "blocks.gathering": ("gather",),
    "arrays.partition": ("Rule",),
    "driver.manage": ("cancel", "clean", "status", "verify", "wait"),
    "driver.options": ("Options",),
    "driver.prepare": ("prepare",),
    "plan.command": ("CommandTask",),
    "plan.pipeline": ("Fold", "Pipeline"),
    "arrays.slab": ("Hyperslab",),
    "storage.remote.uploading": ("upload",),
    "storage.tiers.tier": ("Tier",),
    "blocks.view": ("ArrayView", "open"),
    "workloads.synth": ("synth",),
}
__all__ = [
    "ArrayView",
    "CommandTask",
    "Encoding",
    "Fold",
    "Hyperslab",
    "HyperslabError",
    "LocalityWarning",
    "Options",
    "Pipeline",
    "Result",
    "Rule",
    "TasksFailed",
    "Tier",
    "__version__",
    "cancel",
    "check_locality",
    "clean",
    "convert",
    "diff",
    "gather",
    "open",
    "prepare",
    "run",
    "run_commands",
    "scratch",
    "status",
    "submit",
    "synth",
    "tiers",
    "to_dask",
    "upload",
    "verify",
    "wait",
]


def __dir__() -> list[str]:
    """The public names, also those that are not imported yet, and what modules have."""
    own = [
        name
        for name, value in globals().items()
        if name.startswith("__") or isinstance(value, ModuleType)
    ]
    return sorted({*__all__, *own})


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that `import hyperslab` starts nothing."""
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"hyperslab.{module}"), name)
    raise AttributeError(f"module 'hyperslab' has no attribute '{name}'")


accessor.give()
