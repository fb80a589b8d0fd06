"""`hyperslab doctor`: what is installed, and what works here."""

from __future__ import annotations

import functools
import importlib
import platform
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hyperslab import engines, native, workloads
from hyperslab.cli import document
from hyperslab.cli.flags import Json
from hyperslab.engines import EngineOptions
from hyperslab.engines.facts import engine_names, facts_of
from hyperslab.errors import HyperslabError, UsageError
from hyperslab.formats.table import brought, known
from hyperslab.machine.host import Host, describe
from hyperslab.machine.plugins import version
from hyperslab.network.lab.backends import choosing
from hyperslab.storage.accounting.choosing import WAYS, hindrances_on
from hyperslab.units import show_bytes

BASE = "hyperslab"
"Argument of pip that installs what is always there."
LIBRARIES = ("hyperslab", "numpy", "h5py", "nibabel", "pyarrow")


@dataclass(frozen=True, slots=True)
class State:
    """Whether an engine can be used."""

    engine: str
    state: str
    "installed, not installed, not here; after a job: works, fails, not here."
    why: str = ""


@dataclass(frozen=True, slots=True)
class LinkState:
    """Whether a backend of links can be used, see `hyperslab netlab`."""

    backend: str
    state: str
    "can be used, not here; without a job, also: not asked."
    why: str = ""


@dataclass(frozen=True, slots=True)
class CountingState:
    """Whether operations on files can be counted in a way, see `hyperslab trace-files`."""

    way: str
    state: str
    "can be used, not here."
    why: str


def doctor(
    start: Annotated[
        bool, typer.Option("--start", help="Run a small job on every engine, too.")
    ] = False,
    json: Json = False,
) -> int:
    """Print versions, limits, built-ins and engines; with --start, run a small job on every engine.
    Exit status 1 when one fails.
    """
    with ThreadPoolExecutor() as beside:
        counting = beside.submit(_counting)
        states = _states(start, beside)
        links = _links(start)
        if json:
            told = list(states)
            ways = counting.result()
            document.say({**_facts(), "links": links, "counting": ways, "engines": told})
        else:
            _tell_facts()
            for link in links:
                typer.echo(f"links      {_words(link.backend, link.state, link.why)}")
            for way in counting.result():
                typer.echo(f"counting   {_words(way.way, way.state, way.why)}")
            told = list(map(_told, states))
    if not (json or start):
        typer.echo("\n'hyperslab doctor --start' runs a small job on every engine.")
    return int(any(one.state == "fails" for one in told))


def _states(start: bool, beside: Executor) -> Iterator[State]:
    """States of all engines, one after the other where they run a job. Otherwise all are asked at
    the same time, as some of their programs take long to say which version they are; the last ones
    first, which have such programs.
    """
    if start:
        return map(_tried, engine_names())
    asked = {name: beside.submit(_installed, name) for name in reversed(engine_names())}
    return (asked[name].result() for name in engine_names())


def _links(start: bool) -> list[LinkState]:
    """Whether backends of links can be used here; some are asked for a job alone, as that takes
    long.
    """
    try:
        choosing.require_means()
    except UsageError as error:
        return [LinkState(name, "not here", str(error)) for name in choosing.BACKENDS]
    return [_link(name, start) for name in choosing.BACKENDS]


def _link(name: str, start: bool) -> LinkState:
    if name in choosing.SLOWLY_ASKED and not start:
        return LinkState(name, "not asked", "'hyperslab doctor --start' asks the kernel")
    if why := choosing.BACKENDS[name].missing():
        return LinkState(name, "not here", why)
    return LinkState(name, "can be used", choosing.BACKENDS[name].ABOUT)


def _counting() -> list[CountingState]:
    """Whether each way to count operations on files works here, the best first."""
    return [_way(name, why_not()) for name, why_not in hindrances_on(Path.cwd()).items()]


def _way(name: str, why_not: str) -> CountingState:
    if why_not:
        return CountingState(name, "not here", why_not)
    return CountingState(name, "can be used", WAYS[name])


def _told(state: State) -> State:
    """The state of an engine, told as soon as it is known."""
    typer.echo(f"engine     {_words(state.engine, state.state, state.why)}")
    return state


def _words(name: str, state: str, why: str) -> str:
    if why:
        return f"{name}: {state}: {why}"
    return f"{name}: {state}"


def _facts() -> dict[str, Any]:
    """What is there, as numbers and texts by name."""
    host = Host.here()
    return {
        "python": platform.python_version(),
        "system": describe()["system"],
        "processors": host.cpus,
        "processors_from": host.cpus_from,
        "memory_nbytes": host.memory_bytes,
        "memory_from": host.memory_from,
        "has_native_core": bool(native.core),
        "formats": {facts.module: facts.supported for facts in brought()},
        "libraries": {name: version(name) for name in LIBRARIES},
        "optional": {
            name: {"version": version(name), "install": f"pip install '{requirement}'"}
            for name, requirement in _optional().items()
        },
        "builtins": {name: _summary(name) for name in workloads.BUILTINS},
    }


def _tell_facts() -> None:
    facts = _facts()
    memory = show_bytes(facts["memory_nbytes"])
    core = "not there: filtered files are read through libraries, slower"
    if facts["has_native_core"]:
        core = "there"
    typer.echo(f"python     {facts['python']} on {facts['system']}")
    typer.echo(f"processors {facts['processors']} (by {facts['processors_from']})")
    typer.echo(f"memory     {memory} (by {facts['memory_from']})")
    typer.echo(f"native     {core}")
    for module, supported in facts["formats"].items():
        typer.echo(f"format     {supported}, of {module}")
    for name, number in facts["libraries"].items():
        typer.echo(f"library    {name} {number}")
    for name, found in facts["optional"].items():
        number = found["version"] or f"is not installed: {found['install']}"
        typer.echo(f"optional   {name} {number}")
    for name, summary in facts["builtins"].items():
        typer.echo(f"built-in   {name}: {summary}")


def _summary(builtin: str) -> str:
    return str(importlib.import_module(workloads.BUILTINS[builtin]).SUMMARY)


def _installed(engine: str) -> State:
    """Whether an engine's libraries are there, without starting it."""
    try:
        facts = facts_of(engine)
    except UsageError as error:
        return State(engine, "not here", str(error))
    for name in facts.libraries:
        if version(name) is None:
            return State(engine, "not installed", f"pip install '{facts.requirement}'")
    if facts.is_soon_asked or not facts.libraries:  # others take long to be imported
        return _asked(engine)
    return State(engine, "installed")


def _asked(engine: str) -> State:
    """State of an engine as it finds itself what it needs."""
    try:
        engines.require(engine, EngineOptions(Path(), 1))
    except UsageError as error:
        return State(engine, "not here", _without_name(engine, error))
    return State(engine, "installed")


def _without_name(engine: str, error: UsageError) -> str:
    """Why an engine is not here, without its name, with which the line begins."""
    return str(error).removeprefix(f"--engine {engine}: ")


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
    if version(module) is not None or find_spec(module) is None:
        return module
    return _distributions().get(module, [module])[0]


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    """Distributions by the modules that they bring; all that is installed is looked through, which
    takes longer than all else here.
    """
    from importlib import metadata  # which takes long itself

    return metadata.packages_distributions()


def _tried(engine: str) -> State:
    """Run a real reduction on an engine and compare its result."""
    from hyperslab.driver.run import run
    from hyperslab.plan.pipeline import Pipeline

    values = np.arange(4096, dtype=np.uint16).reshape(16, 16, 16)
    try:
        workers = 2
        if facts_of(engine).spread == "none":
            workers = 1
        place = "." if facts_of(engine).batch_system else None  # which its hosts may share
        with tempfile.TemporaryDirectory(prefix="hyperslab-doctor-", dir=place) as folder:
            pipeline = workloads.build("stats", Pipeline(values), {})
            result = run(
                pipeline, engine=engine, workers=workers, out=Path(folder) / "out", report=False
            )
    except UsageError as error:  # an extra, or Java, is missing: no fault of this installation
        return State(engine, "not here", _without_name(engine, error))
    except HyperslabError as error:
        return State(engine, "fails", str(error))
    except Exception as error:  # noqa: BLE001  # whatever the engine of a package raises
        return State(engine, "fails", f"{type(error).__name__}: {error}")
    if result.ok and result.value.max == 4095:
        return State(engine, "works")
    return State(engine, "fails", "wrong result")
