"""Tiers for tests: mounted for a block, and always removed."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hyperslab.cli import main
from hyperslab.errors import UsageError
from hyperslab.machine.built import Built
from hyperslab.storage.emulation import network, program, registry
from hyperslab.storage.emulation.registry import Emulation
from hyperslab.storage.emulation.removing import remove
from hyperslab.storage.emulation.settings import Settings

RUST = Path(__file__).parents[3] / "rust"


def require_program() -> None:
    """Build the program of tiers if nobody has; skip the test where none can be mounted."""
    require_mounting(program.PROGRAM)


def require_network() -> None:
    """Skip the test where no network file system can be made."""
    require_program()
    try:
        network.require()
    except UsageError as why:
        pytest.skip(str(why))


@functools.cache
def require_mounting(built: Built) -> None:
    """Build a program if nobody has, and skip the test where no file system can be mounted."""
    try:
        program.require_fuse()
    except UsageError as why:
        pytest.skip(str(why))
    try:
        built.find()
    except UsageError:
        build = ["cargo", "build", "--quiet", "--locked", "--package", built.name]
        subprocess.run(build, cwd=RUST, check=True)
        os.environ[built.variable] = str(RUST / "target" / "debug" / built.name)


def status(argv: list[str]) -> object:
    """Exit status of the command."""
    with pytest.raises(SystemExit) as ended:
        main(argv)
    return ended.value.code


@contextmanager
def mounted(
    directory: Path, settings: Settings, backing: Path | None = None, kind: str = "throttled"
) -> Iterator[Emulation]:
    """A tier that nobody has measured, in a directory that is there."""
    require_program()
    emulation = Emulation(
        name=os.urandom(4).hex(),
        kind=kind,
        directory=str(directory),
        backing=str(backing or directory),
        settings=settings,
    )
    emulation = registry.with_process(emulation, program.start(emulation))
    try:
        yield emulation
    finally:
        remove(replace(emulation, made_directory=False), by_force=True)
