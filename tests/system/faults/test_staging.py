"""Deaths, full tiers and tiers that vanish while blocks go by way of a fast one: what was done
stays done, nothing is done twice, and nothing is left on the tier.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as package
from hyperslab.arrays import Array
from hyperslab.blocks import writing
from hyperslab.driver.submission import load_records
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.scratch import program as scratch_program
from hyperslab.storage.scratch import registry
from hyperslab.storage.scratch.removing import remove
from hyperslab.storage.staging import area
from hyperslab.testing.functions import executions
from hyperslab.testing.holding import hold, let_go
from tests.campaign import shim
from tests.campaign.shim import MANY, Rule
from tests.repetitions import few
from tests.storage.emulation.tiers import mounted
from tests.storage.scratch.stage import needs_root, require_program
from tests.storage.scratch.stage import small_disk as small_storage
from tests.system.clusters.required import required
from tests.system.end_to_end.command import call
from tests.system.faults.command import (
    FUNCTIONS,
    SHAPE,
    SLABS,
    await_recorded,
    await_that,
    hyperslab,
    load,
    make_volume,
    no_part_left,
    program,
    recorded,
    running,
)
from tests.system.faults.disk import small_disk

FULL = "ignore:no room was left"
"A block of Python warns of scratch that was full: tests/storage/scratch/test_making.py."
SLOW = Rule("fsync", 1, MANY, "sleep", number=40)
"What reaches storage slowly, so that blocks wait on the tier."
PACE_US = 3000
"The same, of what is written, beside another rule."
DEATHS = {
    "blocks": (Rule("fsync", 18, 1, "kill"), Rule("rename", 16, 1, "killafter")),
    "volume": (Rule("fsync", 18, 1, "killafter"),),
}
"Before a block is on storage, when it has its name, and when its region is on storage."


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    required(shim.missing())
    return shim.compiled(tmp_path_factory.mktemp("shim"))


def job(tmp_path: Path, *more: object, fast: Path | None = None) -> tuple[object, ...]:
    """A command that leaves a file per execution in tmp_path/runs."""
    for name in ("runs", "fast"):
        (tmp_path / name).mkdir(exist_ok=True)
    params = ("-p", f"folder={tmp_path}/runs", "--partition", "slabs", "--no-report")
    where = (tmp_path / "in.nii", "-o", tmp_path / "out", "--stage-out", fast or tmp_path / "fast")
    return ("run", f"{FUNCTIONS}:counted", *where, *params, *more)


def told(tmp_path: Path) -> Any:
    """What the newest run says of its staging."""
    return load_records(tmp_path / "out").trace.meta["staging"]


def staged(fast: Path) -> int:
    """Blocks on the tier."""
    return len(list(fast.glob(".hyperslab-staging-*/out/*")))


def executed(tmp_path: Path) -> int:
    return sum(executions(tmp_path / "runs").values())


def require_right(tmp_path: Path, values: Array, keep: str = "blocks") -> None:
    """All outputs are there and right, and nothing else is."""
    out = tmp_path / "out"
    if keep == "volume":
        assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))
    else:
        assert len(list(out.glob("*.nii"))) == SLABS
        require_blocks(out, values)
    assert no_part_left(out)
    assert all(problem is None for _, problem in package.verify(out))


def require_blocks(out: Path, values: Array) -> None:
    """Whatever is under its name is right."""
    for path in out.glob("*.nii"):
        number = int(path.stem[-2:])
        assert np.array_equal(load(path), values[:, :, number : number + 1] + np.uint16(1))


@pytest.mark.parametrize("keep", DEATHS)
def test_a_driver_that_is_killed_loses_nothing_and_does_nothing_twice(
    tmp_path: Path, library: Path, keep: str
) -> None:
    """Killed again and again at a moment of flushing; what is on the tier alone is not done."""
    values, out, fast = make_volume(tmp_path / "in.nii"), tmp_path / "out", tmp_path / "fast"
    arguments = job(tmp_path, "--keep", keep, "--engine", "threads")
    for number, rule in enumerate(DEATHS[keep]):
        notes = tmp_path / f"notes{number}"
        variables = shim.environment(library, out, notes, rule, pace_us=PACE_US)
        resume = ("--resume",) * bool(number)
        killed = program(*arguments, *resume, environment={**os.environ, **variables})
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert staged(fast) > 0
        assert recorded(out) < SLABS
        if keep == "blocks":
            require_blocks(out, values)
    if keep == "volume":
        shutil.copytree(out, tmp_path / "copy")
        package.clean(tmp_path / "copy")  # which knows the tier by its records
        assert list(fast.iterdir()) == []
    held, before = recorded(out), executed(tmp_path)
    assert 0 < held < before  # of which some was on the tier alone
    done = hyperslab(*arguments, "--resume")
    assert done.returncode == 0, done.stderr
    assert executed(tmp_path) - before == SLABS - held
    require_right(tmp_path, values, keep)
    assert list(fast.iterdir()) == []


def test_a_worker_that_is_killed_takes_no_block_with_it(tmp_path: Path, library: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    variables = shim.environment(library, out, tmp_path / "notes", SLOW)
    arguments = job(tmp_path, "-p", "seconds=0.02", "--workers", 2)
    hold(tmp_path / "runs")
    with running(*arguments, environment=variables) as under_way:
        await_recorded(under_way, out, 2)
        under_way.workers()[0].kill()
        let_go(tmp_path / "runs")
        code, said = under_way.wait()
    assert code == 0, said
    require_right(tmp_path, values)
    assert list((tmp_path / "fast").iterdir()) == []


def have_storage_wait(monkeypatch: pytest.MonkeyPatch, until: Callable[[], object]) -> None:
    """Have nothing that comes by way of the tier reach storage, in this process, before something
    is so.
    """
    settle = writing.settle

    def late(path: Path) -> None:
        await_that("what storage waits for", until)
        settle(path)

    monkeypatch.setattr(writing, "settle", late)


def test_a_tier_that_fills_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = make_volume(tmp_path / "in.nii")
    have_storage_wait(monkeypatch, lambda: executed(tmp_path) == SLABS)
    with small_disk(tmp_path / "small", 20 * 1024) as disk:
        done = call(*job(tmp_path, "--engine", "threads", fast=disk.seen))
        assert [path.name for path in disk.seen.iterdir()] == ["mounted"]
    assert done.code == 0, done.err
    assert "is full: blocks for which it has no room are written directly" in done.err
    assert "tasks wrote" in done.out
    about = told(tmp_path)
    assert about["is_degraded"]
    assert about["out"]["blocks"] + about["out"]["direct_tasks"] == SLABS
    assert min(about["out"]["blocks"], about["out"]["direct_tasks"]) > 0
    assert executed(tmp_path) == SLABS
    require_right(tmp_path, values)


REFUSALS = [("EDQUOT", "Disk quota exceeded"), ("EROFS", "Read-only file system")]


@pytest.mark.parametrize(("error", "words"), few(REFUSALS[:1], REFUSALS, "a tier takes no more"))
def test_a_tier_that_takes_no_more(tmp_path: Path, library: Path, error: str, words: str) -> None:
    """It has room, and refuses what is written to it from some moment on."""
    values, fast = make_volume(tmp_path / "in.nii"), tmp_path / "fast"
    arguments = job(tmp_path, "--engine", "threads", "--retries", 0)
    rule = Rule("create", 9, MANY, "error", error)
    variables = shim.environment(library, fast, tmp_path / "notes", rule)
    done = program(*arguments, environment={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    said = (
        f"--stage-out {fast} takes no more ({words}): blocks for which it has no room are written"
    )
    assert said in done.stderr
    assert told(tmp_path)["is_degraded"]
    assert executed(tmp_path) == SLABS
    require_right(tmp_path, values)
    assert list(fast.iterdir()) == []


COPIED = 8


def copying_job(tmp_path: Path) -> tuple[object, ...]:
    """A command over files that are copied to the tier while the first ones are read."""
    fast = tmp_path / "fast"
    for folder in (fast, tmp_path / "runs"):
        folder.mkdir()
    inputs = [tmp_path / f"in{number}.nii" for number in range(COPIED)]
    for number, path in enumerate(inputs):
        make_volume(path, number)
    where = (*inputs, "-o", tmp_path / "out", "--stage-in", fast, "--blocks", 1)
    params = ("-p", f"folder={tmp_path}/runs", "-p", "seconds=0.15", "--engine", "serial")
    return ("run", f"{FUNCTIONS}:counted", *where, *params, "--no-report")


def require_copied(tmp_path: Path) -> None:
    """All outputs are right, and nothing is left on the tier."""
    for path in tmp_path.glob("in*.nii"):
        (made,) = (tmp_path / "out").glob(f"{path.stem}*.nii")
        assert np.array_equal(load(made), load(path) + np.uint16(1))
    assert list((tmp_path / "fast").iterdir()) == []


def test_a_tier_that_takes_no_more_copies(tmp_path: Path, library: Path) -> None:
    arguments, fast = copying_job(tmp_path), tmp_path / "fast"
    rule = Rule("write", ABOUT + 1, MANY, "error", "EDQUOT")
    variables = shim.environment(library, fast, tmp_path / "notes", rule)
    done = program(*arguments, environment={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    assert f"--stage-in {fast} takes no more (Disk quota exceeded): files for which" in done.stderr
    require_copied(tmp_path)


ABOUT = 1
"Writes to the tier before those of copies: what is said of the run."
DEATHS_OF_COPIES = {
    "in a copy": Rule("write", ABOUT + 2, 1, "killafter"),
    "before a copy is named": Rule("rename", 2, 1, "kill"),
    "before one is evicted": Rule("unlink", 1, 1, "kill"),
    "after one is evicted": Rule("unlink", 1, 1, "killafter"),
}


DIES = ("in a copy", "after one is evicted")
"On the way to the tier, and from it."


@pytest.mark.parametrize("death", few(DIES, DEATHS_OF_COPIES, "a driver dies while it copies"))
def test_a_driver_that_is_killed_while_it_copies_or_evicts(
    tmp_path: Path, library: Path, death: str
) -> None:
    arguments, fast = copying_job(tmp_path), tmp_path / "fast"
    variables = shim.environment(library, fast, tmp_path / "notes", DEATHS_OF_COPIES[death])
    killed = program(*arguments, environment={**os.environ, **variables})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert list(fast.glob(".hyperslab-staging-*/in/*"))
    held, before = recorded(tmp_path / "out"), executed(tmp_path)
    done = hyperslab(*arguments, "--resume")
    assert done.returncode == 0, done.stderr
    assert executed(tmp_path) - before == COPIED - held
    require_copied(tmp_path)


def test_a_tier_that_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = tmp_path / "fast"
    require_done_without(tmp_path, monkeypatch, lambda: fast.rename(tmp_path / "elsewhere"))


def test_a_tier_that_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program of its file system is killed: whatever is asked of it is an error."""
    fast = tmp_path / "fast"
    fast.mkdir()
    with mounted(fast, Settings()) as emulation:
        assert emulation.pid is not None
        pid = emulation.pid
        require_done_without(tmp_path, monkeypatch, lambda: os.kill(pid, signal.SIGKILL))
    assert len(area.sweep(fast)) == 1
    assert list(fast.iterdir()) == []


def require_done_without(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    take_away: Callable[[], object],
    fast: Path | None = None,
) -> None:
    """Blocks that were on the tier alone when something takes it away are made again, at no charge,
    and go to their files directly.
    """
    fast = fast or tmp_path / "fast"
    said = done_without(tmp_path, monkeypatch, take_away, fast)
    assert f"--stage-out {fast} is gone: blocks are written directly from now on" in said
    assert told(tmp_path)["out"]["lost"] == executed(tmp_path) - SLABS > 0


def done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, take_away: Callable[[], object], fast: Path
) -> str:
    """What a run has said from which something takes away a tier, with blocks on it."""
    values = make_volume(tmp_path / "in.nii")
    arguments = job(tmp_path, "--engine", "threads", "--retries", 0, fast=fast)

    is_taken = threading.Event()
    have_storage_wait(monkeypatch, is_taken.is_set)

    def await_and_take() -> None:
        # more than the two slots may still be writing
        await_that("blocks on the tier", lambda: staged(fast) > 2)
        take_away()
        is_taken.set()

    thief = threading.Thread(target=await_and_take)
    thief.start()
    done = call(*arguments)
    thief.join()
    assert done.code == 0, done.err
    require_right(tmp_path, values)
    return done.err


@pytest.mark.parametrize("keep", ["volume", "blocks"])
def test_what_does_not_arrive_as_it_was_written_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: str
) -> None:
    """Storage that changes a byte: the file is never under its name, and the task fails."""
    make_volume(tmp_path / "in.nii")
    monkeypatch.setattr(writing, "settle", change)
    arguments = job(tmp_path, "--engine", "serial", "--keep", keep, "--retries", 0, "--fail-fast")
    done = call(*arguments)
    assert done.code == 1
    assert "what was read back is not what had been written" in done.err
    assert list((tmp_path / "out").glob("*.nii")) == []
    assert list((tmp_path / "fast").iterdir()) == []


def change(path: Path) -> None:
    """Change the last byte of every slab of the volume in a file, or of its only one."""
    slab_nbytes = 2 * SHAPE[0] * SHAPE[1]
    content = bytearray(path.read_bytes())
    for place in range(len(content) - 1, len(content) % slab_nbytes, -slab_nbytes):
        content[place] ^= 1
    path.write_bytes(content)


ROOM = 16 * 4096
"Room for some of the slabs, of which each takes a block of an image."


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for scratch, which is that of this test alone."""
    require_program()
    for name in ("storage", "runtime"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    yield tmp_path / "storage"
    for scratch in registry.recorded():
        remove(scratch, by_force=True)


def require_both_ways(tmp_path: Path) -> None:
    """Some blocks went by way of the tier, and others, for which there was no room, did not."""
    about = told(tmp_path)["out"]
    assert about["blocks"] + about["direct_tasks"] == executed(tmp_path) == SLABS
    assert min(about["blocks"], about["direct_tasks"]) > 0


@pytest.mark.filterwarnings(FULL)
def test_an_image_that_fills_up(
    tmp_path: Path, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = make_volume(tmp_path / "in.nii")
    have_storage_wait(monkeypatch, lambda: executed(tmp_path) == SLABS)
    with package.scratch(storage, ROOM) as fast:
        done = call(*job(tmp_path, "--engine", "threads", fast=fast))
        assert os.listdir(fast) == []
    assert done.code == 0, done.err
    assert f"--stage-out {fast} is full: blocks for which it has no room are written" in done.err
    require_both_ways(tmp_path)
    require_right(tmp_path, values)


@needs_root
@pytest.mark.filterwarnings(FULL)
def test_a_storage_that_fills_up_beneath_an_image(
    tmp_path: Path, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its ceiling the image has room."""
    values = make_volume(tmp_path / "in.nii")
    have_storage_wait(monkeypatch, lambda: executed(tmp_path) == SLABS)
    with small_storage(storage, "size=4m"), package.scratch(storage, "3MB") as fast:
        (storage / "other").write_bytes(bytes(4 * 1024**2 - ROOM))
        done = call(*job(tmp_path, "--engine", "threads", fast=fast))
        assert os.listdir(fast) == []
    assert done.code == 0, done.err
    require_both_ways(tmp_path)
    require_right(tmp_path, values)


@needs_root
def test_an_image_that_fills_up_and_goes_on_elsewhere(
    tmp_path: Path, storage: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the temporary files, as all scratch of a run does."""
    values = make_volume(tmp_path / "in.nii")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    slow = shim.environment(library, tmp_path / "out", tmp_path / "notes", SLOW)
    with small_storage(storage, "size=16k"):  # half of which is two blocks, one of them the lock's
        arguments = job(tmp_path, "--engine", "threads", fast=Path("scratch"))
        scratch = ("--scratch", f"image:{storage}")
        done = program(*arguments, *scratch, environment={**os.environ, **slow})
        assert os.listdir(storage) == []
    assert done.returncode == 0, done.stderr
    assert f"the image in {storage} is full: files go on in {tmp_path}" in done.stderr
    assert told(tmp_path)["out"]["blocks"] == SLABS
    require_right(tmp_path, values)


def test_an_image_whose_program_dies(
    tmp_path: Path, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill() -> None:
        for scratch in registry.recorded():
            for pid in scratch_program.processes_of(scratch):
                os.kill(pid, signal.SIGKILL)

    with package.scratch(storage, "1MB") as fast:
        require_done_without(tmp_path, monkeypatch, kill, fast)
    assert os.listdir(storage) == []
    assert not fast.exists()


def test_an_image_whose_storage_dies(
    tmp_path: Path, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its names are still there; what it is given is refused, and what it had is made again."""
    with mounted(storage, Settings()) as tier, package.scratch(storage, "1MB") as fast:
        assert tier.pid is not None
        pid = tier.pid
        said = done_without(tmp_path, monkeypatch, lambda: os.kill(pid, signal.SIGKILL), fast)
    assert f"--stage-out {fast} " in said
    about = told(tmp_path)
    assert about["is_degraded"]
    assert about["out"]["direct_tasks"] > 0
    assert not fast.exists()


def test_a_run_that_is_killed_leaves_no_image(tmp_path: Path, storage: Path, library: Path) -> None:
    """All of its processes die while blocks are in the image, which are made again."""
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    arguments = job(tmp_path, "--engine", "threads", fast=Path("scratch"))
    scratch = ("--scratch", f"image:{storage}")
    variables = shim.environment(library, out, tmp_path / "notes", SLOW)
    with running(*arguments, *scratch, environment=variables) as under_way:
        await_recorded(under_way, out, 2)
        [made] = registry.recorded()
        assert staged(Path(made.folder)) > 0
        victims = [under_way.process.pid, *(each.pid for each in under_way.workers())]
        assert set(scratch_program.processes_of(made)) < set(victims)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
    assert os.listdir(storage) == []
    assert f"removed {made.name}, whose process has died" in call("scratch", "list").out
    assert not Path(made.folder).exists()
    before = recorded(out)
    done = hyperslab(*arguments, *scratch, "--resume")
    assert done.returncode == 0, done.stderr
    assert 0 < before < SLABS
    require_right(tmp_path, values)
    assert os.listdir(storage) == []
