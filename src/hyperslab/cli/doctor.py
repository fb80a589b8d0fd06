"""`hyperslab doctor`: what is installed, and what works here."""

from __future__ import annotations

import functools
import importlib
import platform
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hyperslab import native, workloads
from hyperslab.driver import run
from hyperslab.engines.facts import engine_names, facts_of
from hyperslab.errors import HyperslabError, UsageError
from hyperslab.formats.table import brought, known
from hyperslab.machine.host import Host, describe
from hyperslab.plan.pipeline import Pipeline
from hyperslab.units import show_bytes

BASE = "hyperslab"
"Argument of pip that installs what is always there."
LIBRARIES = ("hyperslab", "numpy", "h5py", "nibabel", "pyarrow")


def doctor(
    start: Annotated[
        bool, typer.Option("--start", help="Run a small job on every engine, too.")
    ] = False,
) -> int:
    """Print versions, limits, built-ins and engines; with --start, run a small job on every engine.
    Exit status 1 when one fails.
    """
    host = Host.here()
    typer.echo(f"python     {platform.python_version()} on {describe()['system']}")
    typer.echo(f"processors {host.cpus} (by {host.cpus_from})")
    typer.echo(f"memory     {show_bytes(host.memory_bytes)} (by {host.memory_from})")
    missing = "not there: filtered files are read through libraries, slower"
    typer.echo(f"native     {'there' if native.core else missing}")
    for facts in brought():
        typer.echo(f"format     {facts.supported}, of {facts.module}")
    for name in LIBRARIES:
        typer.echo(f"library    {name} {version(name)}")
    for name, requirement in _optional().items():
        typer.echo(f"optional   {_version(name, requirement)}")
    for name in workloads.BUILTINS:
        typer.echo(
            f"built-in   {name}: {importlib.import_module(workloads.BUILTINS[name]).SUMMARY}"
        )
    if not start:
        for name in engine_names():
            typer.echo(f"engine     {name}: {_installed(name)}")
        typer.echo("\n'hyperslab doctor --start' runs a small job on every engine.")
        return 0
    problems = [name for name in engine_names() if not _works(name)]
    return 1 if problems else 0


def _installed(engine: str) -> str:
    """Whether an engine's libraries are there, without starting it."""
    try:
        facts = facts_of(engine)
    except UsageError as error:
        return f"not here: {error}"
    for name in facts.libraries:
        try:
            version(name)
        except PackageNotFoundError:
            return f"not installed: pip install '{facts.requirement}'"
    return "installed"


def _optional() -> dict[str, str]:
    """Distributions beyond the base install, and what pip installs them by."""
    found = {}
    for format_facts in known().values():
        for module, requirement in format_facts.libraries:
            if requirement != BASE:
                found[_distribution(module)] = requirement
    for engine in engine_names():
        with suppress(UsageError):  # of a package that cannot be loaded, as its engine will say
            facts = facts_of(engine)
            found |= dict.fromkeys(facts.optional, facts.requirement)
    return found


def _distribution(module: str) -> str:
    """The distribution that a module is of, which often has the module's name."""
    if _is_distribution(module) or find_spec(module) is None:
        return module
    return _distributions().get(module, [module])[0]


def _is_distribution(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    """Distributions by the modules that they bring; all that is installed is looked through, which
    takes longer than all else here.
    """
    return packages_distributions()


def _version(name: str, requirement: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} is not installed: pip install '{requirement}'"


def _works(engine: str) -> bool:
    """Run a real reduction on an engine and compare its result."""
    values = np.arange(4096, dtype=np.uint16).reshape(16, 16, 16)
    try:
        workers = 2
        if facts_of(engine).spread == "none":
            workers = 1
        with tempfile.TemporaryDirectory(prefix="hyperslab-doctor-") as folder:
            pipeline = workloads.build("stats", Pipeline(values), {})
            result = run.run(
                pipeline, engine=engine, workers=workers, out=Path(folder) / "out", report=False
            )
    except UsageError as error:  # an extra, or Java, is missing: no fault of this installation
        typer.echo(f"engine     {engine}: not here: {error}")
        return True
    except HyperslabError as error:
        typer.echo(f"engine     {engine}: fails: {error}")
        return False
    except Exception as error:  # noqa: BLE001  # whatever the engine of a package raises
        typer.echo(f"engine     {engine}: fails: {type(error).__name__}: {error}")
        return False
    right = result.ok and result.value.max == 4095
    typer.echo(f"engine     {engine}: " + ("works" if right else "fails: wrong result"))
    return bool(right)
