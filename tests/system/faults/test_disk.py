"""Disks that are full, read-only or gone: one sentence, nothing that looks finished and is not, and
a resumable run.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from hyperslab import Pipeline, run
from hyperslab.errors import DoesNotFit
from hyperslab.report.progress import Quiet
from hyperslab.testing.holding import begun, hold, let_go
from tests.repetitions import few
from tests.system.end_to_end.command import save
from tests.system.faults.command import (
    FUNCTIONS,
    SLABS,
    await_gone,
    await_recorded,
    hyperslab,
    load,
    make_volume,
    program,
    running,
)
from tests.system.faults.disk import Disk, small_disk

MIB = 2**20
BY_KIND = {
    "volume": ("counted", ("--keep", "volume")),
    "reduction": ("COUNTED_TOTAL", ()),
}


@pytest.mark.parametrize("kind", few(["volume"], BY_KIND, "a disk that fills up stops a run"))
def test_a_full_disk(tmp_path: Path, kind: str) -> None:
    values, (function, more) = make_volume(tmp_path / "in.nii"), BY_KIND[kind]
    (tmp_path / "runs").mkdir()
    with small_disk(tmp_path / "disk", 8 * MIB) as disk:
        out, seen = disk.path / "out", disk.seen / "out"
        params = ("-p", f"folder={tmp_path}/runs", "-p", "seconds=0.15")
        options = ("--partition", "slabs", "--workers", 2, *more)
        arguments = (
            "run",
            f"{FUNCTIONS}:{function}",
            tmp_path / "in.nii",
            "-o",
            out,
            *params,
            *options,
        )
        hold(tmp_path / "runs")
        with running(*arguments, inside=disk.inside) as run:
            await_recorded(run, seen, 5, tmp_path / "runs")
            disk.fill()
            let_go(tmp_path / "runs")
            code, said = run.wait()
        print(said)
        assert code == 1, said
        assert "No space left on device" in said
        assert "Traceback" not in said
        finished = [path for path in seen.iterdir() if not path.name.startswith(".")]
        assert all(
            path.name.startswith("in_") and load(path).shape == (16, 16, 1) for path in finished
        )
        told = hyperslab("status", seen)
        assert told.returncode == 1
        assert "state      stopped\n" in told.stdout
        assert "No space left on device" in told.stdout.split("because ")[1]
        disk.remount(f"size={64 * MIB}")
        done = program(*arguments, "--resume", "--engine", "threads", inside=disk.inside)
        assert done.returncode == 0, done.stderr
        assert hyperslab("verify", seen).returncode == 0
        if kind == "reduction":
            assert (seen / "result.json").read_text() == str(int(values.sum(dtype=np.int64)))
        else:
            whole = np.concatenate([load(path) for path in sorted(seen.glob("*.nii"))], axis=2)
            assert np.array_equal(whole, values + np.uint16(1))


def test_a_disk_that_is_too_small_is_noticed_before_the_start(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    with small_disk(tmp_path / "disk", MIB // 16) as disk:
        arguments = (
            "run",
            f"{FUNCTIONS}:add",
            tmp_path / "in.nii",
            "-o",
            disk.seen / "out",
            "--partition",
            "slabs",
        )
        refused = hyperslab(*arguments)
        assert refused.returncode == 2
        assert "free some space or choose another output" in refused.stderr
        assert not (disk.seen / "out").exists()


class Filling(Quiet):
    """Fills a disk when it is told something: that the run has made folders."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def tell(self, text: str) -> None:
        assert "created" in text
        self._disk.fill()


def test_a_run_that_never_began_leaves_nothing_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", MIB) as disk:
        pipeline = Pipeline(np.zeros((4, 4, 4))).map(f"{FUNCTIONS}:add")
        full = (
            r"the disk of \S+ is full: the outputs take .* and the records about .*, with 0 B free"
        )
        made = pipeline.write(disk.seen / "new" / "out")
        with pytest.raises(DoesNotFit, match=full):
            run(made, progress=Filling(disk), engine="serial")
        assert {path.name for path in disk.seen.iterdir()} == {"filler", "mounted"}


def test_a_run_that_could_not_write_its_first_output_leaves_nothing(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(size=(64, 64, 128)).astype("f4")
    save(tmp_path / "in.nii", noise)
    with small_disk(tmp_path / "disk", MIB) as disk:
        line = ("run", f"{FUNCTIONS}:add", tmp_path / "in.nii", "-o", disk.seen / "out.nii.gz")
        refused = hyperslab(*line, "--blocks", 1)
        assert "the run cannot begin, as the disk of" in refused.stderr
        assert " MB, less as far as they can be compressed, and the records about" in refused.stderr
        assert "use --resume" not in refused.stderr
        assert {path.name for path in disk.seen.iterdir()} == {"mounted"}


def test_a_read_only_disk(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    with small_disk(tmp_path / "disk", 8 * MIB) as disk:
        disk.remount("ro")
        refused = hyperslab("run", f"{FUNCTIONS}:add", tmp_path / "in.nii", "-o", disk.seen / "out")
        assert refused.returncode == 2
        assert "no permission to write to" in refused.stderr
        assert str(disk.path / "out") in refused.stderr
        assert "Traceback" not in refused.stderr


def test_a_disk_that_became_read_only_before_the_resume(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    with small_disk(tmp_path / "disk", 8 * MIB) as disk:
        arguments = (
            "run",
            f"{FUNCTIONS}:add",
            tmp_path / "in.nii",
            "-o",
            disk.seen / "out",
            "--blocks",
            4,
            "--engine",
            "serial",
        )
        assert hyperslab(*arguments).returncode == 0
        (disk.seen / "out" / "in_00_00_08.nii").unlink()
        disk.remount("ro")
        refused = hyperslab(*arguments, "--resume")
        assert refused.returncode == 2
        assert "no permission to write to" in refused.stderr
        assert "Traceback" not in refused.stderr
        disk.remount("rw")
        assert hyperslab(*arguments, "--resume").returncode == 0
        assert load(disk.seen / "out" / "in_00_00_08.nii").shape == (16, 16, 8)


FUNCTIONS_OF_BOTH = ["counted", "COUNTED_TOTAL"]


@pytest.mark.parametrize("function", few(["counted"], FUNCTIONS_OF_BOTH, "out that vanishes"))
def test_an_output_directory_that_vanishes(tmp_path: Path, function: str) -> None:
    make_volume(tmp_path / "in.nii")
    out, params = tmp_path / "out", ("-p", f"folder={tmp_path}", "-p", "seconds=0.2")
    arguments = (
        "run",
        f"{FUNCTIONS}:{function}",
        tmp_path / "in.nii",
        "-o",
        out,
        "--partition",
        "slabs",
        *params,
    )
    hold(tmp_path)
    with running(*arguments) as run:
        await_recorded(run, out, 3, tmp_path)
        workers = run.workers()
        while out.exists():
            shutil.rmtree(out, ignore_errors=True)
        let_go(tmp_path)
        code, said = run.wait()
        await_gone(workers)
    assert code == 1
    assert str(out) in said
    assert "has disappeared" in said or "No such file or directory" in said
    assert "Traceback" not in said
    assert not out.exists()


def test_records_that_are_damaged_are_not_believed(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    (tmp_path / "runs").mkdir()
    params = ("-p", f"folder={tmp_path}/runs", "--partition", "slabs", "--engine", "threads")
    arguments = ("run", f"{FUNCTIONS}:COUNTED_TOTAL", tmp_path / "in.nii", "-o", out, *params)
    assert hyperslab(*arguments, "-q").returncode == 0
    first, *_ = sorted(out.glob(".hyperslab/run-0001/partials/*.pickle"))
    first.write_bytes(first.read_bytes()[:-1])
    done = hyperslab(*arguments, "--resume", "-q")
    assert done.returncode == 0, done.stderr
    assert (out / "result.json").read_text() == str(int(values.sum(dtype=np.int64)))
    assert SLABS < begun(tmp_path / "runs") < 2 * SLABS
