"""The real command, in a process of its own where it is killed or seen from outside, and the volume
that it works on.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import nibabel as nib
import numpy as np
import psutil

from hyperslab.arrays import Array
from hyperslab.testing.holding import Allowing
from tests.system.clusters.processes import is_alive
from tests.system.end_to_end.command import PROGRAM, call

SHAPE = (16, 16, 32)
"32 slabs of 16 x 16 voxels."
SLABS = SHAPE[2]
FUNCTIONS = "hyperslab.testing.functions"
PATIENCE_S = 200.0
"After so long, something hangs; nothing is measured by it."
POLL_S = 0.03
"Between two looks: to look often takes a processor from what is awaited."


def make_volume(path: Path, seed: int = 0) -> Array:
    """Write a uint16 image of SHAPE; returns its values."""
    values = np.random.default_rng(seed).integers(0, 2**16 - 1, SHAPE, dtype=np.uint16)
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(values, np.diag([2.0, 2, 2, 1])), path)  # type: ignore[no-untyped-call]
    return values


def load(path: Path) -> Array:
    return np.asanyarray(nib.load(path).dataobj)  # type: ignore[attr-defined]


def command(*arguments: object) -> list[str]:
    """A command line of a process of its own."""
    return [*PROGRAM, *words(*arguments)]


def words(*arguments: object) -> list[str]:
    """What a command is told; runs leave their page to `hyperslab report`, which is most of their
    time.
    """
    told = [*map(str, arguments)]
    if told[0] in ("run", "convert"):
        told.append("--no-report")
    return told


def hyperslab(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, in this process: nobody is to look at it or to kill it, and an
    interpreter that starts takes longer than most commands.
    """
    told = words(*arguments)
    done = call(*told)
    return subprocess.CompletedProcess(told, *done)


def program(
    *arguments: object, inside: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, in a process of its own."""
    line = [*inside, *command(*arguments)]
    return subprocess.run(
        line,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=dict(environment or os.environ),
    )


class Running:
    """A command under way."""

    def __init__(
        self,
        *arguments: object,
        inside: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        line = [*inside, *command(*arguments)]
        pipe, env = subprocess.PIPE, {**os.environ, **(environment or {})}
        self.process = subprocess.Popen(
            line, stdout=pipe, stderr=pipe, text=True, start_new_session=True, env=env
        )

    def workers(self) -> list[psutil.Process]:
        """Its worker processes, which serve their tasks or are about to."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return list(psutil.Process(self.process.pid).children(recursive=True))
        return []

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def wait(self) -> tuple[int, str]:
        """Exit status, and what it printed."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out + err

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None


@contextmanager
def running(
    *arguments: object, inside: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """A command under way, which does not outlive the test; `environment` is added to ours."""
    run = Running(*arguments, inside=inside, environment=environment)
    try:
        yield run
    finally:
        workers = run.workers()
        run.process.kill()
        with run.process:  # waits, and closes its pipes
            pass
        for worker in workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()


def await_that(what: str, condition: Callable[[], object]) -> None:
    """Return when the condition holds; fail when it does not within a generous time."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:.0f} s in vain: {what}"
        time.sleep(POLL_S)


def recorded(out: Path) -> int:
    """Tasks that the journals of a run directory call done."""
    lines = (path.read_bytes() for path in out.glob(".hyperslab/run-*/journal/*.jsonl"))
    return sum(len(re.findall(rb'"status":"done"', text)) for text in lines)


def await_recorded(run: Running, out: Path, tasks: int, runs: Path | None = None) -> None:
    """Return when a run has done so many tasks; fail when it ends before. If its executions of
    `counted` are held, in `runs` beside `out`, more of them go on until then, now and then.
    """
    allow = Allowing(runs or out.parent / "runs")

    def is_so() -> bool:
        allow.one_more()
        return recorded(out) >= tasks or run.has_ended

    await_that(f"{tasks} tasks done in {out}", is_so)
    assert recorded(out) >= tasks, run.wait()


def await_gone(processes: list[psutil.Process]) -> None:
    """No orphan survives."""
    await_that(f"the end of {processes}", lambda: not any(map(is_alive, processes)))


def no_part_left(out: Path) -> bool:
    return not list(out.glob(".*.part"))


def assert_failed_alone(
    done: subprocess.CompletedProcess[str], path: Path, out: Path, values: Array, reason: str
) -> None:
    """Slab 5 of a volume failed with a reason, in a sentence; all others are there and right."""
    assert f"failed: {path}[0:16, 0:16, 5:6]: " in done.stderr
    assert reason in done.stderr
    assert f"1 of {SLABS} tasks failed" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert sorted(int(path.stem[-2:]) for path in out.glob("*.nii")) == [
        n for n in range(SLABS) if n != 5
    ]
    assert all(
        np.array_equal(load(out / f"in_00_00_{n:02}.nii"), values[:, :, n : n + 1])
        for n in (0, 4, 6, 31)
    )
    assert no_part_left(out)
