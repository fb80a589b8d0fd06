"""Engines by name; each is imported when it is first asked for."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from hyperslab.errors import MissingExtra, UsageError
from hyperslab.machine import Host
from hyperslab.plan import Engine

ENGINES: dict[str, tuple[str, str, str]] = {
    "serial": ("serial", "Serial", ""),
    "threads": ("threads", "Threads", ""),
    "processes": ("processes", "Processes", ""),
}
"Name -> module, class, extra that installs what it needs ('': the base install does)."


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What every engine is told."""

    folder: Path
    "Of the submission: where slots keep their journals."
    workers: int
    threads: int = 1
    "Tasks at a time in one worker."
    task_timeout_s: float | None = None
    host: str = "localhost"
    slot_cpus: int = 1
    "Processors a slot may use: what BLAS and OpenMP are told."


def create(name: str, options: EngineOptions) -> Engine:
    """The engine of this name, not yet started. Raises UsageError for options that it cannot honour."""
    if name not in ENGINES:
        raise UsageError(f"--engine {name}: choose one of {', '.join(ENGINES)}")
    module, cls, extra = ENGINES[name]
    try:
        found = getattr(importlib.import_module(f"hyperslab.engines.{module}"), cls)
    except ImportError as error:
        raise MissingExtra(f"--engine {name} needs {error.name}: pip install 'hyperslab[{extra}]'") from error
    engine: Engine = found(options)
    return engine


def default_workers(name: str, host: Host) -> tuple[int, int]:
    """(workers, threads) when the user names neither: every processor one slot."""
    return {"serial": (1, 1), "threads": (1, host.cpus)}.get(name, (host.cpus, 1))
