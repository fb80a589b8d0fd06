"""Records that are damaged, incomplete or of another run never become results."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import h5py
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.driver import resume
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.errors import OutputBusy
from hyperslab.plan.journal import Tail
from hyperslab.testing.holding import hold, let_go
from tests.system.faults.command import (
    FUNCTIONS,
    SLABS,
    await_recorded,
    hyperslab,
    load,
    make_volume,
    running,
)

pytestmark = pytest.mark.usefixtures("on_threads")


def volume_job(tmp_path: Path, *more: object) -> tuple[object, ...]:
    (tmp_path / "runs").mkdir(exist_ok=True)
    params = (
        "-p",
        f"folder={tmp_path}/runs",
        "-p",
        "seconds=0.05",
        "--partition",
        "slabs",
        "--keep",
        "volume",
    )
    return (
        "run",
        f"{FUNCTIONS}:counted",
        tmp_path / "in.nii",
        "-o",
        tmp_path / "out",
        *params,
        "--engine",
        "threads",
        "--workers",
        2,
        *more,
    )


def killed_after(tmp_path: Path, tasks: int, *more: object) -> None:
    arguments = volume_job(tmp_path, *more)
    hold(tmp_path / "runs", tasks + 2)
    with running(*arguments) as run:
        await_recorded(run, tmp_path / "out", tasks)
        run.send(signal.SIGKILL)
        run.wait()
    let_go(tmp_path / "runs")


def test_results_belong_to_the_volume_that_they_were_written_to(tmp_path: Path) -> None:
    """A volume that is lost takes its results with it, also when another of its name is there
    again.
    """
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    killed_after(tmp_path, SLABS // 2)
    for partial in out.glob(".*.part"):
        partial.unlink()
    killed_after(tmp_path, SLABS // 2 + 1, "--resume")
    done = hyperslab(*volume_job(tmp_path, "--resume"))
    assert done.returncode == 0, done.stderr
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))
    (out / "in.nii").unlink()
    done = hyperslab(*volume_job(tmp_path, "--resume"))
    assert done.returncode == 0, done.stderr
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))
    assert hyperslab("verify", out).returncode == 0


def test_a_volume_of_another_dtype_is_not_gone_on_with(tmp_path: Path) -> None:
    """What failed for its dtype may be run again in the same place: there are no results that could
    be mixed.
    """
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    of_blocks = "def half(block, slab):\n    return block / 2 if block.shape[0] > 10 else block\n"
    (tmp_path / "mine.py").write_text(of_blocks)  # a sample of it tells nothing of its dtype
    arguments = (
        "run",
        f"{tmp_path}/mine.py:half",
        tmp_path / "in.nii",
        "-o",
        out,
        "--keep",
        "volume",
        "-q",
    )
    failed = hyperslab(*arguments)
    assert failed.returncode == 1
    assert "say --dtype float64" in failed.stderr
    done = hyperslab(*arguments, "--resume", "--dtype", "float64")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(load(out / "in.nii"), values / 2)
    assert not list(out.glob(".*.part"))


@pytest.mark.parametrize(
    "is_recorded", [True, False], ids=["recorded", "killed before it could say so"]
)
def test_what_a_later_run_wrote_over_does_not_count(tmp_path: Path, is_recorded: bool) -> None:
    """A source that is edited, half done, and put back as it was, down to its time."""
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    kept, times = (tmp_path / "in.nii").read_bytes(), (tmp_path / "in.nii").stat()
    killed_after(tmp_path, SLABS // 2)
    make_volume(tmp_path / "in.nii", seed=5)
    killed_after(tmp_path, SLABS, "--resume")
    for journal in () if is_recorded else (out / ".hyperslab" / "run-0002" / "journal").iterdir():
        journal.unlink()
    (tmp_path / "in.nii").write_bytes(kept)
    os.utime(tmp_path / "in.nii", ns=(times.st_atime_ns, times.st_mtime_ns))
    done = hyperslab(*volume_job(tmp_path, "--resume"))
    assert done.returncode == 0, done.stderr
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))


def test_a_damaged_journal_costs_only_what_it_held(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    arguments = ("run", "increment", tmp_path / "in.nii", "-o", out, "--blocks", 4, "-q")
    assert hyperslab(*arguments).returncode == 0
    journal = max(
        (out / ".hyperslab" / "run-0001" / "journal").glob("*.jsonl"),
        key=lambda path: path.stat().st_size,
    )
    with journal.open("ab") as file:
        file.write(b'\0\0\xff\n{}\n[1]\n{"task": 1}\n')
    assert Tail(out / ".hyperslab" / "run-0001").poll()
    said = hyperslab("status", out)
    assert said.returncode == 0
    assert "damaged    4 lines of the journal" in said.stdout
    done = hyperslab(*arguments, "--resume")
    assert done.returncode == 0, done.stderr
    (out / ".hyperslab" / "run-0002" / "plan.json").write_text("")
    assert hyperslab(*arguments, "--resume").returncode == 0
    parts = [load(path) for path in sorted(out.glob("*.nii"))]
    assert np.array_equal(np.concatenate(parts, axis=2), values + np.uint16(1))


def test_an_incomplete_run_does_not_verify(tmp_path: Path) -> None:
    make_volume(tmp_path / "in" / "a.nii")
    make_volume(tmp_path / "in" / "b.nii")
    (tmp_path / "in" / "b.nii").write_bytes((tmp_path / "in" / "b.nii").read_bytes()[:-9])
    assert (
        hyperslab("run", "increment", tmp_path / "in", "-o", tmp_path / "out", "-q").returncode == 1
    )
    checked = hyperslab("verify", tmp_path / "out")
    assert checked.returncode == 1
    assert "1 of 2 tasks done" in checked.stdout


def test_all_of_a_killed_run_can_be_cleaned(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    (tmp_path / "runs").mkdir()
    arguments = (
        "run",
        f"{FUNCTIONS}:counted",
        tmp_path / "in.nii",
        "-o",
        tmp_path / "out",
        "--partition",
        "slabs",
        "--engine",
        "threads",
    )
    hold(tmp_path / "runs")
    with running(*arguments, "-p", f"folder={tmp_path}/runs", "-p", "seconds=0.05") as run:
        await_recorded(run, tmp_path / "out", 3)
        run.send(signal.SIGKILL)
        run.wait()
    (tmp_path / "out" / "mine.txt").write_text("not a run's")
    cleaned = hyperslab("clean", "--all", tmp_path / "out")
    assert cleaned.returncode == 0, cleaned.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_an_edited_attribute_of_hdf5_is_a_changed_source(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("data", data=np.zeros((8, 64, 64), np.int16)).attrs["affine"] = np.eye(
            4
        )
    before = hs.open(f"{tmp_path}/in.h5").source.version
    with h5py.File(tmp_path / "in.h5", "r+") as file:
        file["data"].attrs["affine"] = np.diag([2.0, 2, 2, 1])
    assert hs.open(f"{tmp_path}/in.h5").source.version != before


def test_two_runs_that_were_prepared_together_do_not_both_run(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    pipelines = [
        hs.Pipeline(str(tmp_path / "in.nii")).map(plus, {"amount": n}).write(tmp_path / "out")
        for n in (1, 2)
    ]
    second = prepare(pipelines[1], Options(engine="serial"))
    assert hs.run(pipelines[0], engine="serial").ok
    from hyperslab.driver.run import Driver
    from hyperslab.report.progress import Quiet

    with pytest.raises(OutputBusy, match="in the meantime"):
        Driver(pipelines[1], second, Options(engine="serial"), Quiet()).execute()


def test_the_newest_success_is_what_counts(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    pipeline = hs.Pipeline(str(tmp_path / "in.nii")).map(random_block).write(tmp_path / "out")
    first = hs.run(pipeline, engine="serial")
    first.outputs[0].unlink()
    assert hs.run(pipeline, engine="serial", resume=True).ok
    assert [problem for _, problem in hs.verify(tmp_path / "out")] == [None]
    plan = prepare(pipeline, Options(engine="serial", resume=True)).plan
    inherited = resume.inherit(RunDirectory(tmp_path / "out"), plan, accept_changed_function=False)
    assert len(inherited) == 2
    manifest = json.loads((tmp_path / "out" / ".hyperslab" / "manifest.json").read_text())
    assert manifest["outputs"][0]["checksum"] == resume.results(inherited)[0].outputs[0].checksum


def plus(block: np.ndarray, amount: int) -> np.ndarray:
    return block + np.uint16(amount)


def random_block(block: np.ndarray) -> np.ndarray:
    return np.random.default_rng().integers(0, 2**16 - 1, block.shape, dtype=np.uint16)
