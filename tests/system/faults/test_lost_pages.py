"""A machine that stops loses what it had in memory only: a resumed run finds out what, and does
that again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperslab.arrays import Array
from hyperslab.driver.manifest import save_manifest
from hyperslab.driver.products import Products
from hyperslab.storage import renaming
from hyperslab.storage.recordfile import load_record, save_record
from tests.repetitions import few
from tests.system.end_to_end.command import call
from tests.system.faults import conversions
from tests.system.faults.command import FUNCTIONS, load, make_volume
from tests.system.faults.conversions import (
    KINDS,
    MEMORY,
    content,
    in_bytes,
    job,
    recorded,
    undisturbed,
)
from tests.system.verdicts.slowfs import slow_files

pytestmark = pytest.mark.usefixtures("without_a_report")
PAGES = 4
"Of 4 KiB, that are lost."


def restart(out: Path) -> None:
    """Have all submissions be of before the last start of the machine."""
    for plan in out.rglob("run-*/plan.json"):
        save_record(plan, load_record(plan, "") | {"boot": "an earlier one"})


def interrupt(source: Path, kind: str) -> int:
    """A conversion whose tasks are all done, and which ends before its file has its name; how many
    tasks.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Products, "commit", _interrupted)
        assert call(*job(source, kind)).code == 130
    return recorded(source.parent / "out")


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_changed_digit_in_the_journal_is_no_result(
    tmp_path: Path, source: Path, values: Array
) -> None:
    """Each line is checked: one that names another task now does not vouch for that one's
    region.
    """
    tasks = interrupt(source, "placed")
    for journal in (tmp_path / "out").rglob("journal/*.jsonl"):
        text = journal.read_bytes()
        journal.write_bytes(
            re.sub(rb'"task":(\d)', lambda m: b'"task":%d' % ((int(m[1]) + 1) % tasks), text)
        )
    (unfinished,) = (tmp_path / "out").glob(".new.nii.*.part")
    zero(unfinished, 352)
    undisturbed(*job(source, "placed", "--resume"))
    assert np.array_equal(content(tmp_path / "out" / "new.nii"), values)


def zero(path: Path, first: int) -> None:
    with path.open("r+b") as file:
        file.seek(first)
        file.write(bytes(min(PAGES * 4096, path.stat().st_size - first)))


def lose_head(path: Path) -> None:
    zero(path, 0)


def lose_more_than_the_head(path: Path) -> None:
    lose_head(path)
    zero(path, PAGES * 4096)


def lose_middle(path: Path) -> None:
    zero(path, path.stat().st_size // 2)


LOSSES: dict[str, tuple[str, str, Callable[[Path], None], bool]] = {
    "placed": ("placed", ".new.nii.*.part", lose_middle, False),
    "head": ("placed", ".new.nii.*.part", lose_head, False),
    "runs": ("runs", ".new.nii.gz.*.part/*.part", lose_middle, False),
    "chunks": ("chunks", ".new.h5.*.part/home", lose_middle, False),
    "tables of chunks": ("chunks", ".new.h5.*.part/*.tables", lose_middle, False),
    "head and first chunks": ("chunks", ".new.h5.*.part/home", lose_more_than_the_head, False),
    "parts": ("parts", ".new.h5.*.part/*.h5", lose_middle, False),
    "chunk file": ("store", ".new.zarr.*.part/data/c/1/1/11", Path.unlink, False),
    "shard": ("shards", ".new.zarr.*.part/data/c/1/1/3", lose_middle, False),
    "document": ("store", ".new.zarr.*.part/data/zarr.json", lose_head, True),
}
"Kind of output, what is damaged and how, and whether nothing can be read without it."


LOST = ("head", "runs", "tables of chunks", "parts", "shard", "document")
"A loss of each form of writing, of what says where values are where there is such a file."


@pytest.mark.parametrize("loss", few(LOST, LOSSES, "what was lost is done again"))
def test_what_was_lost_is_done_again(source: Path, loss: str) -> None:
    kind, pattern, damage, is_all = LOSSES[loss]
    out = source.parent / "out"
    tasks = interrupt(source, kind)
    damage(max(out.glob(pattern)))
    restart(out)
    said = call(*(a for a in job(source, kind, "--resume") if a != "-q"))
    assert said.code == 0, said
    again = recorded(out) - tasks
    assert again == tasks if is_all else 0 < again < tasks
    assert (
        f"{again} task{'s' * (again > 1)} will be repeated: the machine was restarted" in said.err
    )
    assert np.array_equal(content(out / KINDS[kind][0]), conversions.values())
    assert call("verify", out / KINDS[kind][0]).code == 0


def test_coordinates_that_were_lost_are_written_again(source: Path) -> None:
    out = source.parent / "out"
    interrupt(source, "store")
    (lost,) = out.glob(".new.zarr.*.part/x/c/0")
    before = lost.read_bytes()
    lose_head(lost)
    restart(out)
    assert call(*job(source, "store", "--resume")).code == 0
    assert (out / "new.zarr" / "x" / "c" / "0").read_bytes() == before != bytes(len(before))
    assert call("verify", out / "new.zarr").code == 0


WHOLE = ["placed", "chunks", "parts", "split", "store", "shards"]


@pytest.mark.parametrize("kind", few(["chunks", "shards"], WHOLE, "what is there stays"))
def test_what_is_there_is_not_done_again(source: Path, kind: str) -> None:
    out = source.parent / "out"
    tasks = interrupt(source, kind)
    restart(out)
    undisturbed(*job(source, kind, "--resume"))
    assert recorded(out) == tasks
    before = in_bytes(out)
    restart(out)
    undisturbed(*job(source, kind, "--resume"))
    assert (recorded(out), in_bytes(out)) == (tasks, before)


@pytest.mark.parametrize("form", ["nii", "zarr"])
def test_files_of_blocks(tmp_path: Path, form: str) -> None:
    """Those that the manifest names were on storage before it; without one they are compared."""
    values = make_volume(tmp_path / "in.nii")
    out = tmp_path / "out"
    options = ("--blocks", 4, "--format", form, "-q", "--engine", "serial")
    line = ("run", f"{FUNCTIONS}:add", tmp_path / "in.nii", "-o", out, *options)
    undisturbed(*line)
    restart(out)
    undisturbed(*line, "--resume")
    assert recorded(out) == 4
    assert call("verify", out).code == 0
    (out / ".hyperslab" / "manifest.json").unlink()
    block = sorted(out.glob(f"*.{form}"))[1]
    lose_middle(block if form == "nii" else block / "data" / "c" / "0" / "0" / "0")
    undisturbed(*line, "--resume")
    assert recorded(out) == 4 + 1
    assert call("verify", out).code == 0
    read = load if form == "nii" else content
    whole = np.concatenate([read(path) for path in sorted(out.glob(f"*.{form}"))], axis=2)
    assert np.array_equal(whole, values + np.uint16(1))


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is waited for to be on storage, by the ends of its names; the manifest, when it is
    written.
    """
    names: list[str] = []
    plain = renaming.synchronise

    def synchronise(path: Path, only_names: bool = False) -> None:
        plain(path, only_names)
        names.append("names" if only_names else path.suffix or path.name)

    def manifest(*arguments: Any) -> None:
        names.append("manifest")
        save_manifest(*arguments)

    monkeypatch.setattr(renaming, "synchronise", synchronise)
    monkeypatch.setattr("hyperslab.driver.run.save_manifest", manifest)
    return names


def test_blocks_are_on_storage_before_the_manifest_names_them(
    tmp_path: Path, waited: list[str]
) -> None:
    make_volume(tmp_path / "in.nii")
    line = (
        "run",
        f"{FUNCTIONS}:add",
        tmp_path / "in.nii",
        "-o",
        tmp_path / "out",
        "--blocks",
        4,
        "-q",
    )
    undisturbed(*line, "--engine", "serial")
    assert waited[:6] == [*4 * [".nii"], "names", "manifest"]


ON_A_NETWORK = ["placed", "chunks", "parts", "store"]


@pytest.mark.parametrize("kind", few(["placed", "parts"], ON_A_NETWORK, "tasks hand files over"))
def test_a_task_on_a_network_hands_over_what_it_wrote(
    source: Path, waited: list[str], kind: str
) -> None:
    """FUSE may be one."""
    name, options = KINDS[kind]
    with slow_files(source.parent, 0) as mount:
        undisturbed("convert", source, mount / name, *options, *MEMORY, "-q", "--engine", "serial")
        tasks = recorded(mount)
    assert tasks > 1
    assert waited[:tasks] == [".part"] * tasks
    assert waited.index("names") >= tasks
