"""Laboratories whose makers and removers are killed can be removed, and are then gone."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hyperslab.network.lab import registry
from hyperslab.storage.mounts import mounts
from tests.network.lab.labs import host, require
from tests.system.faults.command import await_that

SPECS = {
    "kernel": '[nodes.w1]\nrate = "100Mbit"\n[nodes.w2]\nup = { loss = 0.1 }\n',
    "emulator": '[nodes.w1]\ndelay = "5ms"\n[nodes.w2]\nrate = "100Mbit"\n',
}
ROUNDS = int(os.environ.get("HYPERSLAB_NETLAB_ROUNDS", "2"))
"Rounds that are played; more by the variable, whose seed is another one (HYPERSLAB_NETLAB_SEED)."
COMMAND = [str(Path(sys.executable).with_name("hyperslab")), "netlab"]


@pytest.mark.timeout(150 * ROUNDS)
def test_what_was_killed_is_removed(tmp_path: Path, records: Path) -> None:
    require("kernel", "emulator")
    before = host()
    chance = random.Random(os.environ.get("HYPERSLAB_NETLAB_SEED", "7"))
    for number in range(ROUNDS):
        backend = chance.choice(list(SPECS))
        path = tmp_path / f"killed-{number}.toml"
        text = f'name = "killed-{number}"\nbackend = "{backend}"\ntolerance = 0.5\n'
        path.write_text(text + SPECS[backend])
        _kill("up", str(path), after_s=chance.uniform(0.0, 3.0), once=_is_begun)
        assert registry.recorded(), "nothing was made yet that could be left"
        networks = {network for lab in registry.recorded() for network in _networks(lab)}
        _kill("down", "--all", after_s=chance.uniform(0.5, 2.0))
        done = subprocess.run([*COMMAND, "down", "--all"], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert registry.recorded() == []
        assert [one for one in mounts() if one.mount_point.startswith(str(records))] == []
        assert {path.name for path in records.iterdir()} <= {"lock"}
        assert set(_networks_of_processes()) & networks == set()
    assert host() == before


def _is_begun() -> bool:
    """Whether a laboratory is written down, of which parts may be there."""
    return bool(registry.recorded())


def _kill(*words: str, after_s: float, once: Callable[[], bool] | None = None) -> None:
    """Start a command, and kill it some time after it has begun; what it has started lives on."""
    with subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        if once is not None:
            await_that("a laboratory", once)
        try:
            process.wait(after_s)
        except subprocess.TimeoutExpired:
            process.kill()


def _networks(lab: registry.Lab) -> Iterator[int]:
    """Numbers of the networks of a laboratory, as far as there are any."""
    for file in lab.networks:
        with suppress(FileNotFoundError):
            about = file.stat()
            if about.st_dev != lab.place.stat().st_dev:
                yield about.st_ino


def _networks_of_processes() -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            yield (entry / "ns" / "net").stat().st_ino
