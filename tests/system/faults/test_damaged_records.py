"""Whatever became of a run's records, every verb says what is right, or in a sentence what it
cannot know.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from hyperslab.arrays import Array
from hyperslab.driver import rounds
from hyperslab.driver.committed import committed
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.products import Products
from hyperslab.driver.run import Driver
from hyperslab.errors import DamagedRecord, OutputBusy
from hyperslab.storage.recordfile import checksum_of, load_record, require_intact, save_record
from tests.system.end_to_end.command import Finished, call
from tests.system.faults.command import FUNCTIONS, load, make_volume

pytestmark = pytest.mark.usefixtures("without_a_report")
ENGINE = ("--engine", "serial", "-q", "--blocks", "1x1x4")
NEEDS = {
    "status.json": {"status", "report"},
    "manifest.json": {"verify", "clean --all"},
    "committed.jsonl": {"resume"},
    "replaced.json": {"resume", "clean --all"},
    "plan.json": {"resume", "report"},
    "failures.json": {"status", "report"},
    "summary.json": {"report"},
    "provenance.json": {"report"},
    "trace.parquet": {"report"},
}
"Which verbs cannot do without a record; to all others it is as if nothing had happened."
SPARED = {
    ("interrupted", "plan.json"): {"report"},  # it has kept no trace, which is said first
    **{
        (kind, "failures.json"): {"status"}
        for kind in ("blocks", "volume", "reduction", "replacing")
    },
}
"What a verb has no need to read of runs that ended so."
ADVICE = r"--resume|--overwrite|'hyperslab (clean|verify)|run the same command again"


@dataclass(frozen=True, slots=True)
class Case:
    """A run, and what it makes when it is gone on with."""

    kind: str
    out: Path
    "What the verbs are given."
    arguments: tuple[object, ...]
    values: Array

    @property
    def root(self) -> Path:
        return RunDirectory.of(self.out).root

    def result(self) -> Array:
        """What is there now."""
        if self.kind == "reduction":
            return np.asarray(json.loads((self.out / "result.json").read_text()))
        if self.kind == "replacing":
            return load(self.out)
        return np.concatenate([load(path) for path in sorted(self.out.glob("*.nii"))], axis=2)


@pytest.fixture(params=["blocks", "volume", "reduction", "failed", "interrupted", "replacing"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """A run that has ended in one of the ways in which runs end."""
    source, out = tmp_path / "in.nii", tmp_path / "place" / "out"
    values = make_volume(source)
    run: tuple[object, ...] = ("run", "increment", source, "-o", out, *ENGINE)
    if request.param == "volume":
        run = (*run, "--keep", "volume")
    if request.param == "reduction":
        run = ("run", f"{FUNCTIONS}:TOTAL", *run[2:])
    if request.param == "failed":
        deed = (
            "-p",
            "deed=raise",
            "-p",
            "at=0,0,0",
            "-p",
            f"once={tmp_path}/once",
            "--retries",
            "0",
        )
        run = ("run", f"{FUNCTIONS}:misbehave", *run[2:], *deed)
    if request.param == "replacing":
        return replacing(source, out, values)
    code = end_early(run) if request.param == "interrupted" else call(*run).code
    assert code == {"failed": 1, "interrupted": 130}.get(request.param, 0)
    expected = {"failed": values, "reduction": np.asarray(values.sum(dtype=np.int64))}
    return Case(request.param, out, run, expected.get(request.param, values + np.uint16(1)))


def end_early(arguments: Sequence[object]) -> int:
    """A run that ends in its middle, without a word."""

    def killed(run: Driver) -> None:
        if len(run.done) >= 2:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "POLL_INTERVAL_S", 0)
        patch.setattr(Driver, "_check_cancelled", killed)
        patch.setattr(Driver, "_keep_records", interrupted)
        return call(*arguments).code


def replacing(source: Path, out: Path, values: Array) -> Case:
    """A conversion that has begun to take the place of an earlier one."""
    out.mkdir(parents=True)
    convert = ("convert", source, out / "new.nii", "--engine", "serial", "-q")
    assert call(*convert).code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Products, "commit", interrupted)
        assert call(*convert, "--dtype", "int32", "--overwrite").code == 130
    return Case(
        "replacing",
        out / "new.nii",
        (*convert, "--dtype", "int32", "--overwrite"),
        values.astype(np.int32),
    )


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def damages(data: bytes) -> Iterator[bytes]:
    """What may be found in the place of some bytes."""
    yield b""
    yield data[: len(data) // 2]
    yield np.random.default_rng(3).bytes(len(data))
    yield bytes(len(data))
    yield from (b"{}", b"[1]", b"null", b'"text"')
    yield a_digit_changed(data)


def a_digit_changed(data: bytes) -> bytes:
    """The one in the middle."""
    digits = [match.start() for match in re.finditer(rb"[0-8]", data)]
    at = digits[len(digits) // 2]
    return data[:at] + bytes([data[at] + 1]) + data[at + 1 :]


def records(case: Case) -> list[Path]:
    found = [path for path in sorted(case.root.rglob("*")) if path.name in NEEDS]
    assert {path.name for path in found} >= {"status.json", "plan.json"}
    return found


def needs(case: Case, record: Path) -> set[str]:
    return NEEDS[record.name] - SPARED.get((case.kind, record.name), set())


def assert_said(done: Finished, record: Path) -> None:
    """One sentence about a record, and what to do."""
    assert done.code == 2
    assert not done.out or done.out.startswith("state      failed\n"), (
        "what `status` knows all the same"
    )
    (sentence,) = done.err.splitlines()
    assert sentence.startswith(f"hyperslab: {record} is damaged (it"), sentence
    assert re.search(ADVICE, sentence), sentence


def test_who_reads_a_damaged_record_says_so_and_nobody_else_is_disturbed(case: Case) -> None:
    before = {verb: call(verb, case.out) for verb in ("status", "verify", "report", "cancel")}
    for record in records(case):
        data = record.read_bytes()
        record.write_bytes(a_digit_changed(data))
        for verb, said in before.items():
            done = call(verb, case.out)
            if verb in needs(case, record):
                assert_said(done, record)
            else:
                assert done == said, record.name
        record.write_bytes(data)


def test_what_is_gone_on_with_is_right_or_refused(case: Case, tmp_path: Path) -> None:
    """And it is cleaned, which needs to know only what is to be removed with the records."""
    root = case.root
    shutil.copytree(case.out.parent, tmp_path / "kept")
    for record in records(case):
        damaged = a_digit_changed(record.read_bytes())
        record.write_bytes(damaged)
        go_on(case, record)
        for verb in (("clean",), ("clean", "--all")):
            put_back(case, tmp_path / "kept")
            record.write_bytes(damaged)
            done = call(*verb, case.out)
            if " ".join(verb) in needs(case, record):
                assert_said(done, record)
                assert root.is_dir()
            else:
                assert (done.code, done.err) == (0, ""), record.name
                assert not root.exists()
        put_back(case, tmp_path / "kept")


def go_on(case: Case, record: Path) -> None:
    done = call(*case.arguments, "--resume")
    if "resume" not in needs(case, record):
        assert done == Finished(0, "", ""), record.name
        assert np.array_equal(case.result(), case.values), record.name
        assert call("verify", case.out).code == 0
    elif record.name == "committed.jsonl":
        assert done.code == 2
        assert "in.nii exists and is not the file that the run wrote" in done.err
        assert np.array_equal(case.result(), case.values)
    else:
        assert_said(done, record)


def put_back(case: Case, kept: Path) -> None:
    shutil.rmtree(case.out.parent)
    shutil.copytree(kept, case.out.parent)


def test_a_plan_that_was_lost_before_anything_was_done_is_no_obstacle(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    arguments = ("run", "increment", tmp_path / "in.nii", "-o", out, *ENGINE)
    assert call(*arguments).code == 0
    (out / ".hyperslab" / "run-0002" / "journal").mkdir(parents=True)
    (out / ".hyperslab" / "run-0003" / "journal").mkdir(parents=True)
    (out / ".hyperslab" / "run-0003" / "plan.json").write_bytes(b"\0\0")
    (out / ".hyperslab" / "run-0001.copy").mkdir()
    assert call(*arguments, "--resume").code == 0
    assert call("status", out).out.startswith("state      done\n")
    parts = [load(path) for path in sorted(out.glob("*.nii"))]
    assert np.array_equal(np.concatenate(parts, axis=2), values + np.uint16(1))


def test_a_plan_that_is_gone_is_not_skipped_when_its_tasks_have_written(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    arguments = ("run", "increment", tmp_path / "in.nii", "-o", tmp_path / "out", *ENGINE)
    assert call(*arguments).code == 0
    plan = tmp_path / "out" / ".hyperslab" / "run-0001" / "plan.json"
    plan.unlink()
    done = call(*arguments, "--resume")
    assert (done.code, done.err.startswith(f"hyperslab: {plan} is missing: what run-0001 did")) == (
        2,
        True,
    )


def test_what_a_killed_driver_had_begun_to_write_goes_with_the_next_run(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    arguments = ("run", "increment", tmp_path / "in.nii", "-o", tmp_path / "out", *ENGINE)
    assert call(*arguments).code == 0
    root = tmp_path / "out" / ".hyperslab"
    begun = ("manifest.json.part", "run-0001/status.json.part", "run-0001/partials/t0.part")
    for name in begun:
        (root / name).write_bytes(b"half")
    directory = RunDirectory(tmp_path / "out")
    with (root / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(OutputBusy):
            directory.own()
        assert all((root / name).exists() for name in begun), "whoever lives goes on writing them"
    assert call(*arguments, "--resume").code == 0
    assert not list(root.rglob("*.part"))


def test_a_lock_of_any_bytes_is_a_lock(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    lock = directory.own()
    try:
        (directory.root / "lock").write_bytes(b"\xff\xfe")
        with pytest.raises(OutputBusy, match="is in use by"):
            directory.own()
    finally:
        os.close(lock)


@pytest.mark.parametrize(
    "line", ["[]", "[1]", '["", "x"]', '[".", "..", 0, 1]', '["a", "/etc", 0, 1]', "\0\0", "\xff"]
)
def test_an_odd_commitment_is_none(tmp_path: Path, line: str) -> None:
    """Least of all one that would have the directory itself discarded."""
    root = tmp_path / ".hyperslab"
    root.mkdir()
    (root / "committed.jsonl").write_bytes(f"\n{line}\n".encode("latin-1"))
    assert committed(RunDirectory(tmp_path)) == {}


@pytest.mark.parametrize("name", ["status.json", "trace.parquet"])
def test_no_damage_gets_past_the_checksum(tmp_path: Path, name: str) -> None:
    """Arrow would end the process over some of them."""
    path = tmp_path / name
    save_record(path, {"version": 1, "state": "done"})
    data = path.read_bytes()
    checksum = checksum_of(path)
    flipped = (data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data)))
    for damaged in (*damages(data), *flipped):
        path.write_bytes(damaged)
        how = "it is empty" if not damaged else "its content was changed after it was written"
        with pytest.raises(DamagedRecord, match=rf"{name} is damaged \({how}\): do this"):
            (
                load_record(path, "do this")
                if path.suffix == ".json"
                else require_intact(path, checksum, "do this")
            )


def test_a_record_is_what_was_written(tmp_path: Path) -> None:
    value = {"a": np.int64(1), "b": [np.float32(0.5), None, "ä"], "c": tmp_path}
    save_record(tmp_path / "some.json", value)
    assert load_record(tmp_path / "some.json", "") == {
        "a": 1,
        "b": [0.5, None, "ä"],
        "c": str(tmp_path),
    }
    assert json.loads((tmp_path / "some.json").read_text())["b"] == [
        0.5,
        None,
        "ä",
    ], "other programs read it, too"


def test_records_of_earlier_versions_have_no_checksum(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{\n "version": 1,\n "fingerprint": "f"\n}')
    assert load_record(path, "do this") == {"version": 1, "fingerprint": "f"}
    path.write_text('{\n "version": 1,\n "finger')
    with pytest.raises(DamagedRecord, match="do this"):
        load_record(path, "do this")
