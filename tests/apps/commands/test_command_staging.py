"""Commands by way of fast tiers: the same files, whatever becomes of the tier."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hyperslab
from hyperslab import CommandTask
from hyperslab.blocks import checksums
from hyperslab.blocks.writing import Written
from hyperslab.driver.publishing import Publishing
from hyperslab.driver.result import Result
from hyperslab.plan.command import Execute, Ran
from hyperslab.plan.commanded import compile_commands, pipeline_of
from hyperslab.plan.compile import Stage
from hyperslab.plan.delivery import Lost
from hyperslab.plan.task import Outcome
from hyperslab.report.progress import Quiet
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.staging import area, copies
from tests.storage.emulation.tiers import mounted
from tests.storage.scratch.stage import require_program

SCRIPT = 'echo "$1" > "$2/seen"; echo "$3" >> "$2/seen"; cp "$1" "$2/$0.txt"; cp "$1" "$3/scratch"'
TASKS = 6


@pytest.fixture
def tier() -> Iterator[Path]:
    """A directory in memory, which is another file system than that of the outputs."""
    place = Path("/dev/shm") / f"hyperslab-test-{os.getpid()}"
    place.mkdir()
    yield place
    shutil.rmtree(place)


def tasks_in(folder: Path, script: str = SCRIPT) -> list[CommandTask]:
    made = []
    for number in range(TASKS):
        path = folder / f"in{number}"
        path.write_text(f"input {number}\n")
        own = script.replace("/seen", f"/seen{number}")
        words = ("sh", "-c", own, "{name}", "{input}", "{out}", "{work}")
        made.append(CommandTask(f"t{number}", words, (str(path),)))
    return made


def run(tmp_path: Path, script: str = SCRIPT, **settings: Any) -> Result:
    defaults: dict[str, Any] = {"engine": "processes", "workers": 2, "report": False}
    asked = {**defaults, "check": False, **settings}
    return hyperslab.run_commands(tasks_in(tmp_path, script), tmp_path / "out", **asked)


def assert_right(tmp_path: Path) -> None:
    for number in range(TASKS):
        found = (tmp_path / "out" / f"t{number}.txt").read_text()
        assert found == f"input {number}\n"


def places(tmp_path: Path) -> set[tuple[bool, bool]]:
    """Whether the inputs and the scratch directories of commands were in memory."""
    found = set()
    for number in range(TASKS):
        read, work = (tmp_path / "out" / f"seen{number}").read_text().splitlines()
        found.add((read.startswith("/dev/shm/"), work.startswith("/dev/shm/")))
    return found


def test_inputs_outputs_and_scratch_go_by_way_of_a_tier(tmp_path: Path, tier: Path) -> None:
    result = run(tmp_path, stage_in=tier, stage_out=tier)
    assert result.ok, result.failures
    assert_right(tmp_path)
    assert places(tmp_path) == {(True, True)}
    assert list(tier.iterdir()) == []
    kinds = {span.kind for span in result.trace.spans}
    assert {"read", "compute", "write", "flush", "verify"} <= kinds
    staged = result.trace.meta["staging"]["out"]
    assert (staged["blocks"], staged["lost"]) == (2 * TASKS, 0)


def test_what_belongs_to_an_input_comes_with_it(tmp_path: Path, tier: Path) -> None:
    """Programs read an image of two files by the name of one, and its affine from a third."""
    folder, other = tmp_path / "in", tmp_path / "other"
    names = ["a.hdr", "a.img", "a.mat", "a.b.hdr", "ab.img", "b.nii.gz", "b.json", "c.txt"]
    for place in (folder, other):
        place.mkdir()
    for name in names:
        (folder / name).write_text(name)
    (other / "a.hdr").write_text("another")
    (folder / "a.hdr").chmod(0o750)
    (folder / "b.nii.gz").chmod(0o440)
    script = 'ls -R "$(dirname "$0")" && stat -c "%a %n" "$0" "$1" && cat "$0" "$1" "$2"'
    words = ("sh", "-c", f'cd / && ({script}) > "$3/seen"', "{inputs}", "{out}")
    inputs = (folder / "a.hdr", folder / "b.nii.gz", other / "a.hdr")
    task = CommandTask("t", words, tuple(map(str, inputs)))
    result = hyperslab.run_commands([task], tmp_path / "out", stage_in=tier, report=False)
    assert result.ok, result.failures
    seen = (tmp_path / "out" / "seen").read_text().splitlines()
    assert seen[0].startswith(str(tier))
    assert seen[1:6] == ["a.hdr", "a.img", "a.mat", "b.json", "b.nii.gz"]
    assert [line.split()[0] for line in seen[6:8]] == ["750", "440"]
    assert seen[8:] == ["a.hdrb.nii.gzanother"]


def test_scratch_alone_on_a_tier(tmp_path: Path, tier: Path) -> None:
    result = run(tmp_path, work_tier=tier)
    assert result.ok, result.failures
    assert places(tmp_path) == {(False, True)}
    assert list(tier.iterdir()) == []
    (tmp_path / "again").mkdir()
    assert run(tmp_path / "again").ok
    assert places(tmp_path / "again") == {(False, False)}


def test_a_tier_that_vanishes_costs_nothing_but_its_use(tmp_path: Path, tier: Path) -> None:
    """One command takes it away."""
    script = f'test "$0" != t2 || rm -rf {tier}/.hyperslab-staging-*; {SCRIPT}'
    result = run(tmp_path, script, stage_in=tier, stage_out=tier)
    assert result.ok, result.failures
    assert_right(tmp_path)
    notes = result.trace.meta["staging"]["notes"]
    assert any("--stage-out" in text and "is gone" in text for text in notes), notes


def test_a_tier_that_dies_costs_nothing_but_its_use(tmp_path: Path) -> None:
    """One command kills the program of its file system, which then answers with errors alone."""
    tier = tmp_path / "tier"
    tier.mkdir()
    with mounted(tier, Settings()) as emulation:
        once = f'test "$0" != t2 || ! mkdir {tmp_path}/once || kill -9 {emulation.pid}'
        result = run(tmp_path, f"{once}; {SCRIPT}", stage_in=tier, stage_out=tier, retries=0)
    assert result.ok, result.failures
    assert_right(tmp_path)
    notes = result.trace.meta["staging"]["notes"]
    assert any("--stage-out" in text and "is gone" in text for text in notes), notes
    assert len(area.sweep(tier)) == 2
    assert list(tier.iterdir()) == []


def test_an_image_whose_storage_dies_costs_nothing_but_its_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has room, and names that answer; nothing can be written there, and commands that come
    later do not try.
    """
    require_program()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    storage = tmp_path / "storage"
    storage.mkdir()
    with mounted(storage, Settings()) as emulation, hyperslab.scratch(storage, "4MB") as image:
        once = f'test "$0" != t2 || ! mkdir {tmp_path}/once || kill -9 {emulation.pid}'
        counted = f'echo "$0" >> {tmp_path}/runs; {once}; {SCRIPT}'
        result = run(tmp_path, counted, stage_in=image, stage_out=image, retries=0, workers=1)
    assert result.ok, result.failures
    assert_right(tmp_path)
    notes = result.trace.meta["staging"]["notes"]
    assert any("--stage-out" in text and "takes no more (" in text for text in notes), notes
    runs = (tmp_path / "runs").read_text().split()
    assert [runs.count(f"t{number}") for number in (2, 3, 4, 5)] == [2, 1, 1, 1]


def test_a_tier_without_room_is_not_used(
    tmp_path: Path, tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyperslab.driver.staging.keep_free", lambda *_: 2**62)
    result = run(tmp_path, stage_in=tier, stage_out=tier)
    assert result.ok, result.failures
    assert places(tmp_path) == {(False, False)}
    assert result.trace.meta["staging"]["is_degraded"]


@pytest.mark.parametrize("flag", ["stage_in", "work_tier"])
def test_a_tier_that_is_full_is_told_once(
    tmp_path: Path, tier: Path, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    monkeypatch.setattr("hyperslab.driver.staging.keep_free", lambda *_: 2**62)
    told: list[str] = []
    progress = Quiet()
    monkeypatch.setattr(progress, "tell", told.append)
    asked: dict[str, Any] = {flag: tier}
    result = run(tmp_path, engine="threads", progress=progress, **asked)
    assert result.ok, result.failures
    name = flag.replace("_", "-")
    assert [text.partition(":")[0] for text in told] == [f"--{name} {tier} is full"]


def test_inputs_that_had_no_room_are_not_copied_again(
    tmp_path: Path, tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were admitted, and others have taken the room meanwhile."""
    tried = []

    def bring(path: str, *_: object) -> None:
        tried.append(path)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    monkeypatch.setattr(copies, "bring", bring)
    told: list[str] = []
    progress = Quiet()
    monkeypatch.setattr(progress, "tell", told.append)
    result = run(tmp_path, engine="threads", workers=1, stage_in=tier, progress=progress)
    assert result.ok, result.failures
    assert_right(tmp_path)
    assert len(tried) == 1
    assert [text.partition(":")[0] for text in told] == [f"--stage-in {tier} is full"]


def staged_outcome(tmp_path: Path, tier: Path) -> tuple[Publishing, Outcome]:
    (tmp_path / "run").mkdir()
    (tmp_path / "out").mkdir()
    place = tier / "0.0.out"
    place.mkdir()
    (place / "file").write_text("content")
    written = Written("file", 7, checksums.of_file(place / "file"))
    ran = Ran("true", 0, 1.0, 0.0, 0.0, 1, "log", 0, 0, str(place))
    outcome = Outcome(0, 0, "staged", outputs=(written,), ran=ran)
    return Publishing(tmp_path / "out", tmp_path / "run", ()), outcome


@pytest.mark.parametrize("is_near", [False, True])
@pytest.mark.parametrize("damage", ["changed", "cut", "gone", "folder gone"])
def test_what_is_damaged_on_the_tier_is_not_delivered(
    tmp_path: Path, tier: Path, damage: str, is_near: bool
) -> None:
    """Whether or not the tier is on the device of the outputs, so that files can be renamed."""
    if is_near:
        tier = tmp_path / "tier"
        tier.mkdir()
    publishing, outcome = staged_outcome(tmp_path, tier)
    file = tier / "0.0.out" / "file"
    match damage:
        case "changed":
            file.write_text("CONTENT")
        case "cut":
            file.write_text("cont")
        case "gone":
            file.unlink()
        case "folder gone":
            shutil.rmtree(file.parent)
    stage = stage_of_one()
    with pytest.raises(Lost):
        publishing.deliver(stage.job, stage.tasks[0], outcome)
    assert list((tmp_path / "out").iterdir()) == []


def test_what_is_right_on_the_tier_is_delivered(tmp_path: Path, tier: Path) -> None:
    publishing, outcome = staged_outcome(tmp_path, tier)
    stage = stage_of_one()
    assert publishing.deliver(stage.job, stage.tasks[0], outcome) == outcome.outputs
    publishing.forget(outcome)
    assert (tmp_path / "out" / "file").read_text() == "content"
    assert list((tmp_path / "run" / "private").iterdir()) == []
    assert list(tier.iterdir()) == []


def stage_of_one() -> Stage:
    end = Execute((CommandTask("t", ("true",)),), "t", "", "/")
    return compile_commands(pipeline_of(end), end).stages[0]
