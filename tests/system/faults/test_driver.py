"""The driver dies or is stopped: what was done stays done, and --resume does only what is
missing.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest

import hyperslab as package
from hyperslab import Pipeline
from hyperslab.driver import manage, submission
from hyperslab.driver.directory import RunDirectory
from hyperslab.plan.journal import load_partials
from hyperslab.testing import functions
from hyperslab.testing.functions import executions
from hyperslab.testing.holding import FREE, hold, let_go
from tests.engines.at import At
from tests.repetitions import few, repeats
from tests.system.faults.command import (
    FUNCTIONS,
    SLABS,
    Running,
    await_gone,
    await_recorded,
    await_that,
    hyperslab,
    load,
    make_volume,
    no_part_left,
    recorded,
    running,
)

WORKERS = 2
ON_THREADS = ("--engine", "threads")
"For runs whose workers nobody disturbs: these would take longer to start than the run."


def job(
    tmp_path: Path, function: str, *more: object, seconds: float = 0.07, workers: int = WORKERS
) -> tuple[object, ...]:
    """A command that leaves a file per execution in tmp_path/runs."""
    (tmp_path / "runs").mkdir(exist_ok=True)
    params = ("-p", f"folder={tmp_path}/runs", "-p", f"seconds={seconds}")
    where = (tmp_path / "in.nii", "-o", tmp_path / "out")
    return (
        "run",
        f"{FUNCTIONS}:{function}",
        *where,
        *params,
        "--partition",
        "slabs",
        "--workers",
        workers,
        *more,
    )


def kill_and_await_orphans(run: Running) -> None:
    workers = run.workers()
    run.send(signal.SIGKILL)
    assert run.wait()[0] == -signal.SIGKILL
    await_gone(workers)


@contextmanager
def held_run(tmp_path: Path, *arguments: object, free: int = FREE) -> Iterator[Running]:
    """A run that is under way however long other commands take: so many of its blocks go on."""
    hold(tmp_path / "runs", free)
    with running(*arguments) as run:
        yield run
    let_go(tmp_path / "runs")


AT_ITS_END = """
import os
import time
from pathlib import Path

from hyperslab.driver.products import Products


def commit(*_):
    Path(os.environ["AT_ITS_END"]).touch()
    time.sleep(1000)


Products.commit = commit
"""
"What Python runs at its start, in a driver that does not end."


def endless(tmp_path: Path) -> dict[str, str]:
    """The environment of a driver that stays where its tasks are done, and then makes a file."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(AT_ITS_END)
    path = f"{site}:{os.environ.get('PYTHONPATH', '')}"
    return {"PYTHONPATH": path, "AT_ITS_END": str(tmp_path / "at its end")}


KEPT = (
    "a map goes on where it was killed: once, into a volume; blocks after Ctrl-C; after several"
    " deaths: test_a_driver_killed_before_or_after_its_tasks"
)
KILLED = [("volume", 1), ("volume", 2), ("blocks", 2)]


@pytest.mark.parametrize(("keep", "kills"), few(KILLED[:1], KILLED, KEPT))
def test_a_map_is_resumed_after_kills_of_the_driver(tmp_path: Path, keep: str, kills: int) -> None:
    values, out, chance = make_volume(tmp_path / "in.nii"), tmp_path / "out", random.Random(keep)
    arguments = job(tmp_path, "counted", "--keep", keep)
    for kill in range(kills):
        with held_run(tmp_path, *arguments, *(["--resume"] if kill else [])) as run:
            await_recorded(run, out, 1 + 6 * kill)
            time.sleep(chance.uniform(0, 0.3))
            kill_and_await_orphans(run)
        assert (
            not list(out.glob("*.nii"))
            if keep == "volume"
            else len(list(out.glob("*.nii"))) < SLABS
        )
        status = hyperslab("status", out)
        assert (status.returncode, "state      died" in status.stdout) == (1, True)
    verified = hyperslab("verify", out)
    assert (verified.returncode, "finish it with --resume" in verified.stderr) == (1, True)
    before, held = executions(tmp_path / "runs"), recorded(out)
    done = hyperslab(*arguments, "--resume", *ON_THREADS)
    assert done.returncode == 0, done.stderr
    after = executions(tmp_path / "runs")
    assert sum(after.values()) - sum(before.values()) == SLABS - held
    paths = sorted(out.glob("*.nii"))
    assert np.array_equal(
        np.concatenate([load(path) for path in paths], axis=2), values + np.uint16(1)
    )
    assert no_part_left(out)
    assert hyperslab("verify", out).returncode == 0
    undisturbed = hyperslab(
        *job(tmp_path, "counted", "--keep", keep, "-o", tmp_path / "again"), "-q", *ON_THREADS
    )
    assert undisturbed.returncode == 0
    assert {p.name: p.read_bytes() for p in paths} == {
        p.name: p.read_bytes() for p in (tmp_path / "again").glob("*.nii")
    }


@repeats("a run is resumed after kills: of a map, above; reductions: engines/test_processes.py")
def test_a_reduction_is_resumed_after_kills_of_the_driver(tmp_path: Path) -> None:
    values, out, chance = make_volume(tmp_path / "in.nii"), tmp_path / "out", random.Random(3)
    arguments, kills = job(tmp_path, "COUNTED_TOTAL"), 2
    for kill in range(kills):
        with held_run(tmp_path, *arguments, *(["--resume"] if kill else [])) as run:
            await_recorded(run, out, 1 + 6 * kill)
            time.sleep(chance.uniform(0, 0.3))
            kill_and_await_orphans(run)
        assert not list(out.glob("result*"))
    before = sum(executions(tmp_path / "runs").values())
    held = sum(
        len(partial.tasks)
        for partial in load_partials(
            [(f, None) for f in RunDirectory(out).submissions()], range(SLABS)
        )
    )
    done = hyperslab(*arguments, "--resume", *ON_THREADS)
    assert done.returncode == 0, done.stderr
    assert (out / "result.json").read_text() == str(int(values.sum(dtype=np.int64)))
    assert held >= 7
    assert sum(executions(tmp_path / "runs").values()) - before == SLABS - held


def test_a_driver_killed_before_or_after_its_tasks(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    arguments = job(tmp_path, "counted", "--keep", "volume", workers=1)
    for kill, moment in enumerate(("run-0001", "run-0002/status.json", "run-0003/worker.log")):
        with held_run(tmp_path, *arguments, *(["--resume"] if kill else []), free=1) as run:
            await_that(moment, (out / ".hyperslab" / moment).exists)
            kill_and_await_orphans(run)
    with running(*arguments, "--resume", environment=endless(tmp_path)) as run:
        await_that("the end of its tasks", (tmp_path / "at its end").exists)
        assert recorded(out) == SLABS
        kill_and_await_orphans(run)
    done = hyperslab(*arguments, "--resume", *ON_THREADS)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))


def test_a_second_run_on_one_directory_is_refused(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    arguments = job(tmp_path, "counted", "--keep", "volume", *ON_THREADS)
    with held_run(tmp_path, *arguments) as run:
        await_recorded(run, out, 1)
        for more in ([], ["--resume"]):
            second = hyperslab(*arguments, *more)
            assert second.returncode == 2
            assert f"{out} is in use by another run" in second.stderr
            assert "Traceback" not in second.stderr
        assert hyperslab("clean", out).returncode == 2
        let_go(tmp_path / "runs")
        code, said = run.wait()
    assert code == 0, said
    assert executions(tmp_path / "runs").keys() == {f"0_0_{n}" for n in range(SLABS)}
    assert sum(executions(tmp_path / "runs").values()) == SLABS
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))


def test_of_two_runs_that_start_together_one_is_refused(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    arguments = job(tmp_path, "counted", "--keep", "volume", *ON_THREADS)
    with running(*arguments) as one, running(*arguments) as two:
        ends = sorted([one.wait(), two.wait()], key=lambda end: end[0])
    assert [code for code, _ in ends] == [0, 2], ends
    assert sum(executions(tmp_path / "runs").values()) == SLABS


SIGNALS = [signal.SIGINT, signal.SIGTERM]
"Both are sent to the command in test_progress.py, too."


@pytest.mark.parametrize("number", few([signal.SIGINT], SIGNALS, "a run that is interrupted"))
def test_ctrl_c_leaves_a_resumable_run(tmp_path: Path, number: signal.Signals) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    function = "COUNTED_TOTAL" if number == signal.SIGTERM else "counted"
    arguments = job(tmp_path, function)
    with held_run(tmp_path, *arguments) as run:
        await_recorded(run, out, 5)
        workers = run.workers()
        run.send(number)
        code, said = run.wait()
        await_gone(workers)
    assert code == 130
    assert "interrupted: run the same command with --resume to continue" in said
    assert "Traceback" not in said
    assert "state      stopped" in hyperslab("status", out).stdout
    assert no_part_left(out)
    before = sum(executions(tmp_path / "runs").values())
    done = hyperslab(*arguments, "--resume", *ON_THREADS)
    assert done.returncode == 0, done.stderr
    assert sum(executions(tmp_path / "runs").values()) - before <= SLABS - 5
    if function == "counted":
        blocks = [load(path) for path in sorted(out.glob("*.nii"))]
        assert np.array_equal(np.concatenate(blocks, axis=2), values + np.uint16(1))
    else:
        assert (out / "result.json").read_text() == str(int(values.sum(dtype=np.int64)))


def test_ctrl_c_while_records_are_written_leaves_a_run_that_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the second or third one of somebody who cannot wait: it has not died without a word."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    pipeline = Pipeline(np.zeros((4, 2), np.uint16)).map(functions.add).write(tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(submission, "save_records", interrupt)
        with pytest.raises(KeyboardInterrupt):
            package.run(pipeline, engine="serial", blocks=4, progress=At(1, interrupt))
    told = manage.status(tmp_path / "out")
    assert (told.state, told.why_stopped) == ("stopped", "")
    assert package.run(pipeline, engine="serial", blocks=4, resume=True).ok


def test_cancel_and_status(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    arguments = job(tmp_path, "counted", "--keep", "volume", *ON_THREADS)
    assert hyperslab("status", out).returncode == 2
    with held_run(tmp_path, *arguments) as run:
        await_recorded(run, out, 3)
        status = hyperslab("status", out)
        assert status.returncode == 0
        assert f"state      running (pid {run.process.pid} on " in status.stdout
        cancelled = hyperslab("cancel", out)
        assert cancelled.stdout.startswith("cancelled")
        code, said = run.wait()
    assert code == 1
    assert "the run was cancelled" in said
    assert "Traceback" not in said
    status = hyperslab("status", out)
    assert status.returncode == 1
    assert "state      cancelled" in status.stdout
    assert "--resume" in status.stdout
    assert hyperslab("cancel", out).returncode == 2
    assert hyperslab("verify", out).returncode == 1, "the volume has not appeared yet"
    assert hyperslab(*arguments, "--resume", "-q").returncode == 0
    status = hyperslab("status", out)
    assert status.returncode == 0
    assert "state      done" in status.stdout
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))


def test_verify_and_clean(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    out, bent = tmp_path / "out", tmp_path / "out" / "in_00_00_07.nii"
    assert hyperslab(*job(tmp_path, "counted"), "-q", *ON_THREADS).returncode == 0
    assert f"{SLABS} of {SLABS} outputs unchanged since the run" in hyperslab("verify", out).stdout
    data = bytearray(bent.read_bytes())
    data[-1] ^= 1
    bent.write_bytes(data)
    (out / "in_00_00_09.nii").unlink()
    verified = hyperslab("verify", out)
    assert verified.returncode == 1
    assert "wrong: in_00_00_07.nii: checksum" in verified.stdout
    assert "wrong: in_00_00_09.nii: missing" in verified.stdout
    assert f"{SLABS - 2} of {SLABS}" in verified.stdout
    (out / ".in_00_00_09.nii.0123456789abcdef.part").touch()
    (out / "mine.txt").write_text("not a product of the run")
    assert hyperslab("clean", out).returncode == 0
    assert sorted(path.name for path in out.iterdir()) == [
        *(f"in_00_00_{n:02}.nii" for n in range(SLABS) if n != 9),
        "mine.txt",
    ]


def test_clean_all(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    out = tmp_path / "out"
    assert (
        hyperslab(*job(tmp_path, "counted", "--keep", "volume"), "-q", *ON_THREADS).returncode == 0
    )
    (out / "mine.txt").write_text("not a product of the run")
    assert hyperslab("clean", out, "--all").returncode == 0
    assert [path.name for path in out.iterdir()] == ["mine.txt"]


def test_a_volume_is_verified_region_by_region(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    out = tmp_path / "out"
    assert (
        hyperslab(*job(tmp_path, "counted", "--keep", "volume"), "-q", *ON_THREADS).returncode == 0
    )
    with (out / "in.nii").open("r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([last[0] ^ 1]))
    verified = hyperslab("verify", out)
    assert verified.returncode == 1
    assert f"wrong: in.nii (task {SLABS - 1})" in verified.stdout
    assert "0 of 1 output unchanged" in verified.stdout


def test_a_missing_output_is_made_again(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    assert hyperslab(*job(tmp_path, "counted"), "-q", *ON_THREADS).returncode == 0
    (out / "in_00_00_03.nii").unlink()
    assert hyperslab(*job(tmp_path, "counted", "--resume"), "-q", *ON_THREADS).returncode == 0
    assert executions(tmp_path / "runs")["0_0_3"] == 2
    assert sum(executions(tmp_path / "runs").values()) == SLABS + 1
    assert np.array_equal(load(out / "in_00_00_03.nii"), values[:, :, 3:4] + np.uint16(1))


@repeats("no worker outlives its driver: test_stale_workers.py, of one that hangs and was stopped")
def test_workers_do_not_outlive_a_driver_that_hangs_up(tmp_path: Path) -> None:
    """Even a function that never returns ends with its driver."""
    make_volume(tmp_path / "in.nii")
    bad = ("-p", "deed=hang", "-p", "at=0,0,0", "--partition", "slabs", "-o", tmp_path / "out")
    with running("run", f"{FUNCTIONS}:misbehave", tmp_path / "in.nii", *bad) as run:
        await_recorded(run, tmp_path / "out", SLABS - 3)
        workers: list[psutil.Process] = run.workers()
        assert workers
        kill_and_await_orphans(run)
    lines = (tmp_path / "out/.hyperslab/run-0001/status.json").read_text()
    assert json.loads(lines)["state"] == "running"
