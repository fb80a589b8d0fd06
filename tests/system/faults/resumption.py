"""Resumption: runs on an engine that are stopped or killed in their midst, and go on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from hyperslab.testing.functions import executions
from hyperslab.testing.holding import hold, let_go
from tests.system.clusters.processes import line
from tests.system.faults.command import (
    FUNCTIONS,
    SLABS,
    Running,
    await_gone,
    await_recorded,
    hyperslab,
    load,
    make_volume,
    program,
    recorded,
    running,
)


def job(
    tmp_path: Path, engine: str, function: str, *more: object, seconds: float = 0.1
) -> tuple[object, ...]:
    """A command that leaves a file per execution in tmp_path/runs."""
    (tmp_path / "runs").mkdir(exist_ok=True)
    params = (
        "-p",
        f"folder={tmp_path}/runs",
        "-p",
        f"seconds={seconds}",
        "--partition",
        "slabs",
        "--engine",
        engine,
    )
    return (
        "run",
        f"{FUNCTIONS}:{function}",
        tmp_path / "in.nii",
        "-o",
        tmp_path / "out",
        *params,
        *more,
    )


def stopped_and_resumed(
    tmp_path: Path,
    engine: str,
    cluster: tuple[object, ...],
    deed: Callable[[Running], None],
    reason: str,
    environment: Mapping[str, str] | None = None,
) -> None:
    """A run that stops with a reason when the deed is done to it, and is resumed by threads of our
    own.
    """
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    first = job(tmp_path, engine, "counted", *cluster, "--keep", "volume", seconds=0.2)
    hold(tmp_path / "runs")
    with running(*first, environment=environment) as run:
        await_recorded(run, out, 3)
        deed(run)
        code, said = run.wait()
    let_go(tmp_path / "runs")
    assert code == 1, said
    assert reason in said
    assert "--resume continues" in said
    assert "Traceback" not in said
    own = ("--threads", 8, "--keep", "volume")
    again = job(tmp_path, "threads", "counted", *own, seconds=0.2)
    done = hyperslab(*again, "--resume")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))


def killed_and_resumed(tmp_path: Path, engine: str) -> list[str]:
    """A reduction whose driver is killed, which takes all that it has started with it, and which is
    resumed; the command lines of what it had started.
    """
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    arguments = job(tmp_path, engine, "COUNTED_TOTAL")
    hold(tmp_path / "runs")
    with running(*arguments) as run:
        await_recorded(run, out, 5)
        left = run.workers()
        lines = [line(process) for process in left]
        run.send(signal.SIGKILL)
        assert run.wait()[0] == -signal.SIGKILL
        await_gone(left)
    let_go(tmp_path / "runs")
    before, held = sum(executions(tmp_path / "runs").values()), recorded(out)
    done = program(*arguments, "--resume")
    assert done.returncode == 0, done.stderr
    assert (out / "result.json").read_text() == str(int(values.sum(dtype=np.int64)))
    assert held >= 5
    assert sum(executions(tmp_path / "runs").values()) - before <= SLABS - held
    return lines
