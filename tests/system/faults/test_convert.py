"""Conversions that are killed, stopped, or replace something: nothing is lost or half-visible."""

from __future__ import annotations

import functools
import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import psutil
import pytest

from hyperslab.arrays import Array
from tests.repetitions import few
from tests.system.end_to_end.command import call, save, values_of
from tests.system.faults.command import await_gone, await_that, load, running
from tests.system.faults.conversions import (
    AFFINE,
    KINDS,
    MEMORY,
    await_tasks,
    content,
    in_bytes,
    job,
    let_go,
    recorded,
    refusal,
    undisturbed,
)

pytestmark = pytest.mark.usefixtures("without_a_report")


@pytest.fixture(scope="module")
def expected(
    tmp_path_factory: pytest.TempPathFactory, values: Array
) -> Callable[[str], dict[str, bytes]]:
    """What a conversion of each kind leaves that nobody disturbs."""

    @functools.cache
    def made(kind: str) -> dict[str, bytes]:
        source = tmp_path_factory.mktemp(kind) / "in.nii"
        save(source, values, AFFINE)
        undisturbed(*job(source, kind))
        return in_bytes(source.parent / "out")

    return made


Expected = Callable[[str], dict[str, bytes]]


FORMS = ("split",)
"""Into several places. Parts of one file that are lost are done again in test_lost_pages.py. Those
that are written in place or as a store are killed while they replace something, below, and stopped
and gone on with in test_copies.py; the campaign kills conversions of all kinds.
"""


@pytest.mark.parametrize("kind", few(FORMS, KINDS, "a killed conversion goes on"))
def test_a_killed_driver_leaves_nothing_visible_and_is_resumed(
    source: Path, held: dict[str, str], kind: str, expected: Expected
) -> None:
    out = source.parent / "out"
    with running(*job(source, kind), environment=held) as run:
        await_tasks(run, out, 2)
        run.send(signal.SIGKILL)
        assert run.wait()[0] == -signal.SIGKILL
    assert all("/." in str(path) for path in out.rglob("*") if path.is_file()), (
        "nothing but hidden files"
    )
    assert "--resume" in refusal(*job(source, kind))
    before = recorded(out)
    undisturbed(*job(source, kind, "--resume"))
    (manifest,) = out.rglob("manifest.json")
    tasks = json.loads(manifest.read_text())["tasks"]
    assert 2 <= before < tasks
    assert recorded(out) == tasks, "what was done is not done again"
    assert in_bytes(out) == expected(kind)
    assert kind == "split" or np.array_equal(content(out / KINDS[kind][0]), values_of(source))


ATTEMPT = "a killed worker costs an attempt: of a conversion into one file"


@pytest.mark.parametrize("kind", few(["chunks"], ["chunks", "split"], ATTEMPT))
def test_a_killed_worker_costs_an_attempt(
    source: Path, held: dict[str, str], kind: str, expected: Expected
) -> None:
    out = source.parent / "out"
    name, options = KINDS[kind]
    slots = ("--engine", "processes", "--workers", 2, "--threads", 2)
    arguments = ("convert", source, out / name, *options, *MEMORY, *slots, "--retries", 3, "-q")
    with running(*arguments, environment=held) as run:
        await_tasks(run, out, 2)
        workers: list[psutil.Process] = [p for p in run.workers() if not p.children()]
        workers[-1].kill()
        let_go(held)
        code, said = run.wait()
    assert code == 0, said
    await_gone(workers)
    assert in_bytes(out) == expected(kind)


MOMENTS = (
    ("placed", "after 1"),
    ("chunks", "before 1"),
    ("store", "after 1"),
    ("shards", "after 1"),
    ("split", "before 3"),
    ("split", "after 3"),
    ("parts", "after 1"),  # of the first part, which is written as a file of its own
    ("parts", "before -1"),
)
OF_EACH = (("split", "before 3"),)
"""Several files, whose names change one after the other; that of a single file or folder changes at
once. test_commit.py has what a commit meets, also of stores.
"""


@pytest.mark.parametrize(("kind", "moment"), few(OF_EACH, MOMENTS, "old file or new one"))
def test_a_driver_killed_while_it_replaces(
    source: Path, held: dict[str, str], kind: str, moment: str, values: Array, expected: Expected
) -> None:
    """At any moment of the commit there is the old file or the new one; --resume makes it the new
    one.
    """
    out, name = source.parent / "out", KINDS[kind][0]
    save(source, values[::-1].copy(), AFFINE)
    undisturbed(*job(source, kind))
    old = in_bytes(out)
    save(source, values, AFFINE)
    when, number = moment.split()
    renames = 2 + len(list(out.glob("*.parts-*/*")))
    at = int(number) if int(number) > 0 else renames + 1 + int(number)
    with running(
        *job(source, kind, "--overwrite"),
        environment=held | {"KILL_AT": f"{when} {at}", "HOLD": ""},
    ) as run:
        assert run.wait()[0] == -signal.SIGKILL
    if kind == "split":
        assert "its files are being replaced" in refusal(
            "convert", out / name, source.parent / "merged.nii", "-q"
        )
    else:
        seen = content(out / name)
        assert np.array_equal(seen, values) or np.array_equal(seen, values[::-1]), (
            "neither the old nor the new"
        )
    undisturbed(*job(source, kind, "--overwrite", "--resume"))
    assert in_bytes(out) == expected(kind) != old
    assert not list(out.rglob(".*.part"))
    assert len(list(out.glob("*.parts-*"))) == (kind == "parts")


def test_a_reader_always_sees_the_old_file_or_the_new_one(source: Path, values: Array) -> None:
    """However often it is replaced, by files of two kinds."""
    out = source.parent / "out"
    versions = [source, source.parent / "other.nii"]
    save(versions[1], values[::-1].copy())
    done, seen, odd = threading.Event(), [0, 0], list[str]()

    def look() -> None:
        while not done.is_set():
            with h5py.File(out / "new.h5", "r", locking=False) as file:
                found = file["data"][:, :, ::50]
            which = [np.array_equal(found, v[:, :, ::50]) for v in (values, values[::-1])]
            if sum(which) != 1:
                odd.append("neither")
            seen[which.index(True) if any(which) else 0] += 1

    def _has_seen(turn: int, before: int) -> bool:
        return seen[(turn + 1) % 2] > before or bool(odd)

    kinds = ("placed", "chunks")
    options = {"placed": (), "chunks": KINDS["chunks"][1]}
    line = ("--engine", "serial", "-q", "--overwrite")
    undisturbed("convert", versions[0], out / "new.h5", *line)
    reader = threading.Thread(target=look)
    reader.start()
    try:
        for turn in range(3):
            undisturbed(
                "convert",
                versions[(turn + 1) % 2],
                out / "new.h5",
                *options[kinds[turn % 2]],
                *line,
            )
            before = seen[(turn + 1) % 2]
            await_that("a look at the new file", functools.partial(_has_seen, turn, before))
    finally:
        done.set()
        reader.join()
    assert odd == []
    assert min(seen) > 0


def test_ctrl_c_leaves_the_old_file(source: Path, held: dict[str, str], values: Array) -> None:
    out = source.parent / "out"
    save(out / "new.nii", values[::-1].copy())
    before = in_bytes(out)
    assert f"{out / 'new.nii'} exists: give another name, or --overwrite" in refusal(
        *job(source, "placed")
    )
    with running(*job(source, "placed", "--overwrite"), environment=held) as run:
        await_tasks(run, out, 2)
        run.send(signal.SIGINT)
        code, said = run.wait()
    assert code == 130
    assert "the same command with --resume in place of --overwrite to continue" in said
    assert {
        name: raw for name, raw in in_bytes(out).items() if not name.endswith(".part")
    } == before
    undisturbed(*job(source, "placed", "--overwrite", "--resume"))
    assert np.array_equal(load(out / "new.nii"), values)
    assert list(in_bytes(out)) == ["new.nii"]


def test_a_split_is_replaced_by_another_one(source: Path, values: Array) -> None:
    """Also where that has fewer files; and never where somebody else has put something."""
    out = source.parent / "out" / "blocks"
    undisturbed(*job(source, "split"))
    names = sorted(path.name for path in out.glob("[!.]*"))
    (out / "notes.txt").write_text("mine")
    line = ("convert", source, out, "--blocks", "1x1x2", "--engine", "serial", "-q")
    assert "holds an earlier run" in refusal(*line)
    assert "holds files that no conversion made, such as notes.txt" in refusal(*line, "--overwrite")
    assert sorted(path.name for path in out.glob("[!.]*")) == sorted([*names, "notes.txt"])
    assert call("verify", out).code == 0, "its records are still there"
    (out / "notes.txt").unlink()
    undisturbed(*line, "--overwrite")
    assert sorted(path.name for path in out.glob("[!.]*")) == [
        "in_00_00_0000.nii",
        "in_00_00_0600.nii",
    ]
    assert np.array_equal(load(out / "in_00_00_0600.nii"), values[:, :, 600:])


def test_a_directory_that_is_more_than_a_zarr_store_is_kept(source: Path) -> None:
    place = source.parent / "x.zarr"
    place.mkdir()
    line = ("convert", source, place, "--engine", "serial", "-q", "--overwrite")
    undisturbed(*line)  # an empty one
    undisturbed(*line)
    (place / "paper.csv").write_text("mine")
    assert "x.zarr holds paper.csv, which is not of a Zarr store" in refusal(*line)
    (place / "paper.csv").unlink()
    (place / "zarr.json").unlink()
    assert "which is not of a Zarr store" in refusal(*line)
    assert any(place.iterdir())
