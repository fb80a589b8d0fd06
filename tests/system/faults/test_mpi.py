"""Ranks, drivers and launchers of MPI that die or hang: a result, or a reason within seconds, no
process left behind, and a run that can be gone on with.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest

from hyperslab.testing.functions import executions
from hyperslab.testing.holding import hold, let_go
from tests.repetitions import few, repeats
from tests.system.clusters import mpi
from tests.system.clusters.processes import line
from tests.system.clusters.required import required
from tests.system.faults.command import (
    FUNCTIONS,
    PATIENCE_S,
    SLABS,
    Running,
    await_gone,
    await_recorded,
    await_that,
    command,
    hyperslab,
    load,
    make_volume,
    no_part_left,
    program,
    recorded,
    running,
)

SECONDS = 150.0
"After so long a run hangs whose ranks cannot go on; nothing is measured by it."
BY_DEED = {
    "die": "was killed by SIGKILL (kill -9, or the kernel's out-of-memory killer)",
    "fork": "has died",
}
"What is said of a rank whose function does a deed; `fork` leaves a child that holds all its pipes."
FREEZE = """
import ctypes, os, pathlib

def freeze(block, slab, folder):
    if slab.start[2] == 7:
        pathlib.Path(folder, "frozen").write_text(str(os.getpid()))
        ctypes.PyDLL(None).sleep(1000)  # with the interpreter's lock
    return block
"""
PROGRAM = """
import sys
import numpy as np
import hyperslab

fold = hyperslab.Fold(lambda block: int(block.sum()), lambda a, b: a + b)
pipeline = hyperslab.Pipeline(np.arange(16).reshape(16, 1)).reduce(fold)
for _ in range(2):
    result = hyperslab.run(pipeline, engine="mpi", connect="world", blocks=16)
    print(result.value, len(result.trace.slots))
sys.exit(3)
"""
"What every rank runs."
LOSING = """
import os, signal
import numpy as np
import hyperslab

fold = hyperslab.Fold(lambda block: os.getpid(), max)
pipeline = hyperslab.Pipeline(np.arange(16).reshape(16, 1)).reduce(fold)
place = {"engine": "mpi", "connect": "world", "blocks": 16}
os.kill(hyperslab.run(pipeline, **place).value, signal.SIGKILL)
hyperslab.run(pipeline, **place)
"""
"What every rank runs, until one of them is killed between two runs."
UNNOTICED = ("sh", "-c", '"$@" || exec sleep 600', "sh")
"""What starts a rank whose death a launcher does not notice: mpiexec, as it knows of shells alone,
which outlive their ranks, lets the others wait then, as srun does by itself.
"""
APART = ("unshare", "--map-root-user", "--time", "--fork")
"What starts a rank that takes the others for processes of other hosts."
WORLD = ("--connect", "world")
OWN = ("--workers", 2)


@pytest.fixture(autouse=True)
def _enough() -> None:
    required(mpi.missing())


def job(tmp_path: Path, function: str, *more: object) -> list[object]:
    """A run of a function over slabs."""
    place = (tmp_path / "in.nii", "-o", tmp_path / "out", "--partition", "slabs")
    return ["run", function, *place, "--engine", "mpi", *more]


def counted(tmp_path: Path, function: str, *more: object) -> list[object]:
    """A run that leaves a file per execution in tmp_path/runs."""
    (tmp_path / "runs").mkdir(exist_ok=True)
    params = ("-p", f"folder={tmp_path}/runs", "-p", "seconds=0.1")
    return job(tmp_path, f"{FUNCTIONS}:{function}", *params, *more)


def freezing(tmp_path: Path, *more: object) -> list[object]:
    """A run one of whose ranks hangs in C in slab 7."""
    path = tmp_path / "own.py"
    path.write_text(FREEZE)
    return job(tmp_path, f"{path}:freeze", "-p", f"folder={tmp_path}", *more)


def await_frozen(tmp_path: Path, run: Running) -> None:
    """Return when one rank hangs and the others have done the rest."""
    frozen = tmp_path / "frozen"
    await_that("a frozen rank", lambda: frozen.exists() and frozen.read_text())
    await_recorded(run, tmp_path / "out", SLABS // 2)


def ranks(run: Running) -> list[psutil.Process]:
    """The processes of ours that do tasks."""
    found = [process for process in run.workers() if "mpi.rank" in line(process)]
    return [process for process in found if "python" in process.name()]


@repeats("a rank that dies ends the run, which is gone on with: of a world, below; and with why")
@pytest.mark.parametrize("deed", BY_DEED)
def test_a_rank_that_dies_ends_the_run_with_its_reason(tmp_path: Path, deed: str) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    once = ("-p", f"deed={deed}", "-p", "at=0,0,5", "-p", f"once={tmp_path}/marker")
    arguments = job(tmp_path, f"{FUNCTIONS}:misbehave", *once, *OWN, "--keep", "volume")
    began = time.monotonic()
    done = hyperslab(*arguments)
    assert time.monotonic() - began < SECONDS
    assert done.returncode == 1, done.stderr
    assert f"failed: {tmp_path}/in.nii[0:16, 0:16, 5:6]: the worker process" in done.stderr
    assert BY_DEED[deed] in done.stderr
    assert "MPI cannot go on without it" in done.stderr
    assert "Traceback" not in done.stderr
    if deed != "die":
        return
    again = hyperslab(*arguments, "--resume")
    assert again.returncode == 0, again.stderr
    assert np.array_equal(load(out / "in.nii"), values)
    assert no_part_left(out)


def test_a_killed_rank_ends_one_that_hangs_in_c(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    with running(*freezing(tmp_path, *OWN)) as run:
        await_frozen(tmp_path, run)
        left = run.workers()
        frozen = int((tmp_path / "frozen").read_text())
        (idle,) = (rank for rank in ranks(run) if rank.pid != frozen)
        idle.kill()
        code, said = run.wait()
        await_gone(left)
    assert code == 1, said
    assert f"process {idle.pid} on" in said
    assert "was killed by SIGKILL" in said
    assert "--resume continues the run" in said


def test_a_killed_mpiexec_stops_the_run(tmp_path: Path) -> None:
    """It is what has died, whichever ranks the driver still sees."""
    make_volume(tmp_path / "in.nii")
    with running(*freezing(tmp_path, *OWN)) as run:
        await_frozen(tmp_path, run)
        left = run.workers()
        left[0].kill()
        code, said = run.wait()
        await_gone(left)
    assert code == 1, said
    assert "mpiexec was killed by SIGKILL" in said
    assert "the ranks of MPI have ended with it" in said
    assert "--resume continues the run" in said
    assert "Traceback" not in said


SIGNALS = [signal.SIGINT, signal.SIGKILL]


@pytest.mark.parametrize("number", few([signal.SIGKILL], SIGNALS, "no rank outlives its driver"))
def test_no_rank_outlives_its_driver(tmp_path: Path, number: signal.Signals) -> None:
    """Not even one that hangs in C, and holds the interpreter's lock."""
    make_volume(tmp_path / "in.nii")
    with running(*freezing(tmp_path, *OWN)) as run:
        await_frozen(tmp_path, run)
        left = run.workers()
        assert len(ranks(run)) == 2
        run.send(number)
        code, said = run.wait()
        await_gone(left)
    assert code in (130, -signal.SIGKILL), said
    assert "Traceback" not in said


@repeats("a run that has lost a rank goes on, above; reductions are resumed by TestMpi")
def test_a_reduction_is_resumed_after_a_kill(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    arguments = counted(tmp_path, "COUNTED_TOTAL", "--workers", 3)
    hold(tmp_path / "runs")
    with running(*arguments) as run:
        await_recorded(run, out, 5)
        ranks(run)[1].kill()
        code, said = run.wait()
    assert code == 1, said
    let_go(tmp_path / "runs")
    before, held = sum(executions(tmp_path / "runs").values()), recorded(out)
    done = hyperslab(*arguments, "--resume")
    assert done.returncode == 0, done.stderr
    assert (out / "result.json").read_text() == str(int(values.sum(dtype=np.int64)))
    assert sum(executions(tmp_path / "runs").values()) - before <= SLABS - held


def test_a_world_of_the_user_works_and_says_one_thing(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    arguments = counted(tmp_path, "counted", *WORLD, "--keep", "volume")
    done = program(*arguments, inside=mpi.started(3))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("on 2 slots") == 1
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))
    assert len(executions(tmp_path / "runs")) == SLABS
    again = program(*arguments, inside=mpi.started(2))
    assert again.returncode == 2, again.stderr
    assert again.stderr.count("holds an earlier run") == 1


def test_a_program_on_every_rank_is_driven_by_one(tmp_path: Path) -> None:
    """As often as it likes; the others stay in the first call, and end with it."""
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [*mpi.started(3), sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout == "120 2\n120 2\n"


def test_a_rank_that_dies_between_two_runs_is_seen_at_the_next(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(LOSING)
    done = subprocess.run(
        [*mpi.started(3), *UNNOTICED, sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode
    assert "a rank of MPI has died in an earlier run" in done.stderr


@repeats("a rank that dies ends a world, which is resumed: where the launcher lets others wait")
def test_a_world_in_which_a_rank_dies_is_ended_and_resumed(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    once = ("-p", "deed=die", "-p", "at=0,0,5", "-p", f"once={tmp_path}/marker")
    arguments = job(tmp_path, f"{FUNCTIONS}:misbehave", *once, *WORLD, "--keep", "volume")
    done = program(*arguments, inside=mpi.started(3))
    assert done.returncode, done.stdout
    again = program(*arguments, "--resume", inside=mpi.started(3))
    assert again.returncode == 0, again.stderr
    assert np.array_equal(load(out / "in.nii"), values)


def test_a_dead_rank_ends_a_world_whose_launcher_lets_the_others_wait(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    once = ("-p", "deed=die", "-p", "at=0,0,5", "-p", f"once={tmp_path}/marker")
    arguments = job(tmp_path, f"{FUNCTIONS}:misbehave", *once, *WORLD, "--keep", "volume")
    with running(*arguments, inside=(*mpi.started(3), *UNNOTICED)) as run:
        await_that("a dead rank", (tmp_path / "marker").exists)
        left = run.workers()
        began = time.monotonic()
        code, said = run.wait()
        assert time.monotonic() - began < SECONDS
        await_gone(left)
    assert code, said
    assert re.search(r"rank [12] of MPI, process \d+ on \S+, has died, and MPI cannot go on", said)
    assert f"failed: {tmp_path}/in.nii[0:16, 0:16, 5:6]: the worker process" in said
    assert "tried again" not in said
    again = program(*arguments, "--resume", inside=mpi.started(2))
    assert again.returncode == 0, again.stderr
    assert np.array_equal(load(out / "in.nii"), values)


def test_a_dead_rank_of_another_host_ends_such_a_world(tmp_path: Path) -> None:
    """Of its process the driver knows nothing, but its connection ends."""
    _require_places_apart()
    make_volume(tmp_path / "in.nii")
    deed = ("-p", "deed=die", "-p", "at=0,0,5", "-p", f"once={tmp_path}/marker")
    arguments = job(tmp_path, f"{FUNCTIONS}:misbehave", *deed, *WORLD)
    with running(*arguments, inside=(*mpi.started(3), *UNNOTICED, *APART)) as run:
        await_that("a dead rank", (tmp_path / "marker").exists)
        left = run.workers()
        code, said = run.wait()
        await_gone(left)
    assert code, said
    assert re.search(r"rank [12] of MPI, process \d+ on \S+, has died, or is not reached", said)
    assert f"failed: {tmp_path}/in.nii[0:16, 0:16, 5:6]: the worker process" in said
    assert "--resume continues the run" in said


def test_the_ranks_of_such_a_world_end_with_their_driver(tmp_path: Path) -> None:
    """In the middle of tasks, and on whatever host they are."""
    _require_places_apart()
    make_volume(tmp_path / "in.nii")
    arguments = counted(tmp_path, "counted", *WORLD)
    hold(tmp_path / "runs")
    with running(*arguments, inside=(*mpi.started(3), *UNNOTICED, *APART)) as run:
        await_recorded(run, tmp_path / "out", 5)
        ranks = [process for process in run.workers() if "python" in process.name()]
        (driver,) = (rank for rank in ranks if _owns(rank, tmp_path / "out"))
        assert len(ranks) == 3
        driver.kill()
        await_gone(ranks)


def _require_places_apart() -> None:
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode:
        required("no clocks can be made apart here (unshare)")


def _owns(process: psutil.Process, out: Path) -> bool:
    """Whether a process is the driver of the run into a directory."""
    return str(out / ".hyperslab" / "lock") in {file.path for file in process.open_files()}


def test_a_world_is_interrupted_with_a_rank_that_hangs_in_c(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    with running(*freezing(tmp_path, *WORLD), inside=mpi.started(3)) as run:
        await_frozen(tmp_path, run)
        left = run.workers()
        run.send(signal.SIGINT)
        code, said = run.wait()
        await_gone(left)
    assert code, said
    assert "interrupted: run the same command with --resume" in said
    assert "state      stopped" in hyperslab("status", tmp_path / "out").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ("--engine", "mpi", *WORLD, "--wrong-flag"),
            "No such option: --wrong-flag",
            marks=repeats("what is wrong is told once: of a wrong address"),
        ),
        (("--engine=mpi", "--connect=wordl"), "--connect wordl: --engine mpi takes world alone"),
    ],
)
def test_a_wrong_command_line_is_told_once_and_known_to_every_rank(
    tmp_path: Path, arguments: Sequence[str], said: str
) -> None:
    make_volume(tmp_path / "in.nii")
    line = command("run", "increment", tmp_path / "in.nii", "-o", tmp_path / "out", *arguments)
    status = ("sh", "-c", '"$@"; echo status $?', "sh")
    done = subprocess.run(
        [*mpi.started(2), *status, *line],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.stdout.split("\n").count("status 2") == 2, done.stdout
    assert done.stderr.count("hyperslab: ") == done.stderr.count(said) == 1, done.stderr


def test_what_is_wrong_with_each_of_several_commands_is_told_by_each() -> None:
    """They may have been given different lines, where they form no world."""
    line = command("info", "nowhere.nii")
    done = subprocess.run(
        [*mpi.started(2), *line], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.stderr.count("nowhere.nii") == 2, done.stderr


def test_a_command_of_mpiexec_that_is_no_world_is_refused(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    line = command(*counted(tmp_path, "counted"))
    done = subprocess.run(
        [*mpi.started(2), *line], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 2
    assert "this process is a rank of MPI already" in done.stderr
    alone = program(*counted(tmp_path, "counted", *WORLD))
    assert alone.returncode == 2
    assert "--connect world: this process is alone" in alone.stderr
    assert not (tmp_path / "out").exists()
