"""What a submission leaves and gives back: records, provenance in words, and pages written again
from them.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab
from hyperslab.driver.submission import load_records, provenance
from hyperslab.errors import UsageError
from hyperslab.redaction import redact
from hyperslab.storage.recordfile import load_record, save_record
from tests.system.end_to_end.command import ANATOMICAL, BRAIN, call, succeed

FAILING = """
def fail(block, slab):
    if slab.start[0]:
        raise ValueError("a bad block <b>")
    return block
"""

TAKING = """
from pathlib import Path

def take_the_name_of_the_page(block, out):
    for folder in Path(out).glob(".hyperslab/run-*"):
        (folder / "report.html").mkdir(exist_ok=True)
    return block
"""


def run(folder: Path) -> Path:
    """The output directory of a run, one of whose two tasks failed."""
    out = folder / "out"
    (folder / "mine.py").write_text(FAILING)
    done = call(
        "run",
        f"{folder}/mine.py:fail",
        BRAIN,
        "-o",
        out,
        "--blocks",
        "2x1x1",
        "--engine",
        "threads",
        "-q",
    )
    assert done.code == 1
    return out


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("once"))


@pytest.fixture
def ran(tmp_path: Path, once: Path) -> Path:
    """A copy of the directory of a run, beside its function."""
    shutil.copytree(once.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / once.name


def test_records_are_read_back_from_the_directory_or_the_submission(ran: Path) -> None:
    records = load_records(ran)
    assert records.folder == ran / ".hyperslab" / "run-0001"
    assert load_records(records.folder).title == records.title == f"fail over {BRAIN.name}"
    assert records.state == "failed"
    assert (records.summary.tasks, len(records.trace.slots)) == (2, records.summary.slots)
    (failed,) = records.failures
    assert "[90:181, 0:217, 0:181]" in failed.task
    assert (failed.message, failed.attempts) == ("ValueError: a bad block <b>", 2)
    assert records.facts["engine"] == "threads"
    assert records.plan["tasks"] == 2


def test_a_trace_of_an_earlier_version_is_told_what_its_engine_is(ran: Path) -> None:
    """Which the run did not record then."""
    folder = load_records(ran).folder
    trace = load_records(ran).trace
    run = dict(trace.meta["run"])
    assert (run["in_caller"], run["process_per_slot"], run["is_light"]) == (True, False, True)
    for name in ("in_caller", "process_per_slot", "is_light"):
        del trace.meta["run"][name]
    trace.save(folder / "trace.parquet")
    about = load_record(folder / "provenance.json", "")
    del about["trace"]
    save_record(folder / "provenance.json", about)
    assert load_records(ran).trace.meta["run"] == run


def test_a_page_that_cannot_be_written_fails_no_run(tmp_path: Path) -> None:
    function = f"{tmp_path}/mine.py:take_the_name_of_the_page"
    (tmp_path / "mine.py").write_text(TAKING)
    out = tmp_path / "out"
    flags = ("-o", out, "-p", f"out={out}", "--engine", "serial", "-q")
    done = call("run", function, ANATOMICAL, *flags)
    folder = out / ".hyperslab" / "run-0001"
    assert done.code == 0, done
    assert "warning    the report could not be written (IsADirectoryError: " in done.err
    assert f"'hyperslab report {folder}' writes it" in done.err
    assert load_records(out).state == "done"
    assert succeed("verify", out)
    (folder / "report.html").rmdir()
    succeed("report", folder)
    assert (folder / "report.html").is_file()

    other = tmp_path / "other"
    pipeline = hyperslab.Pipeline(np.zeros((4, 4))).map(function, out=str(other)).write(other)
    with pytest.warns(UserWarning, match="the report could not be written"):
        result = hyperslab.run(pipeline, engine="serial")
    assert result.ok
    assert "IsADirectoryError" in result.unreported
    assert result.page is None


def test_the_page_may_be_left_for_later(tmp_path: Path) -> None:
    out = tmp_path / "my results"
    said = succeed("run", "histogram", ANATOMICAL, "-o", out, "--engine", "serial", "--no-report")
    folder = out / ".hyperslab" / "run-0001"
    page = folder / "report.html"
    assert f"not written; write it with: hyperslab report '{folder}'" in said
    assert not page.exists()
    assert shlex.split(said.partition("write it with: ")[2].splitlines()[0])[2] == str(folder)
    succeed("report", folder)
    assert "<h2>Where the time went" in page.read_text()


def test_the_page_is_written_again_from_the_records_alone(tmp_path: Path) -> None:
    ran = run(tmp_path)
    page = ran / ".hyperslab" / "run-0001" / "report.html"
    first = page.read_text()
    page.unlink()
    said = succeed("report", ran)
    assert f"report     {page}" in said
    again = page.read_text()
    assert again.split("<h2>Every phase")[0] == first.split("<h2>Every phase")[0], (
        "but for the charts' random names"
    )
    assert again.split("<h2>Where the time went")[1] == first.split("<h2>Where the time went")[1]
    assert "a bad block &lt;b&gt;" in again
    other = tmp_path / "other.html"
    succeed("report", page.parent, "--out", other, "--bandwidth", "1.5GB/s")
    assert "dashed: what the device can do, 1.50 GB/s" in other.read_text()
    assert "1.50 GB/s" not in first


def test_a_newest_submission_is_meant(tmp_path: Path) -> None:
    ran = run(tmp_path)
    assert (
        call(
            "run",
            f"{ran.parent}/mine.py:fail",
            BRAIN,
            "-o",
            ran,
            "--blocks",
            "2x1x1",
            "--engine",
            "serial",
            "-q",
            "--resume",
        ).code
        == 1
    )
    assert load_records(ran).folder.name == "run-0002"
    assert load_records(ran).summary.tasks == 1, "the other had been done"


@pytest.mark.parametrize(
    ("name", "record", "sentence"),
    [
        (
            "trace.parquet",
            None,
            "holds no trace.parquet, which a run writes when it ends; finish it with",
        ),
        ("provenance.json", None, "holds no provenance.json"),
        ("summary.json", {"version": 99}, "newer hyperslab"),
        ("provenance.json", {"version": 99}, "newer hyperslab"),
    ],
)
def test_records_that_are_missing_or_newer_are_refused_in_a_sentence(
    ran: Path, name: str, record: dict[str, int] | None, sentence: str
) -> None:
    path = ran / ".hyperslab" / "run-0001" / name
    path.unlink()
    if record is not None:
        save_record(path, record)
    with pytest.raises(UsageError, match=sentence):
        load_records(ran)
    done = call("report", ran)
    assert (done.code, done.out) == (2, "")


def test_a_directory_without_a_run_and_an_odd_rate_are_refused(ran: Path, tmp_path: Path) -> None:
    assert "holds no run" in call("report", tmp_path / "nothing").err
    done = call("report", ran, "--bandwidth", "fast")
    assert (done.code, "--bandwidth fast: give a positive size" in done.err) == (2, True)


def test_a_run_whose_driver_was_killed_has_died(ran: Path) -> None:
    path = ran / ".hyperslab" / "run-0001" / "status.json"
    save_record(path, load_record(path, "") | {"state": "running"})
    assert load_records(ran).state == "died"
    told = call("status", ran).out
    assert re.search(
        r"because    it ended without a word, .*; on its disk: \S+ [kMGT]?B free\n", told
    )
    succeed("report", ran)
    assert "died before its end" in (path.parent / "report.html").read_text()


def test_provenance_is_in_words() -> None:
    source = {"kind": "mosaic", "files": 3, "first": "s3://me:pass@bucket/a.h5", "shape": [4, 5]}
    summary: dict[str, Any] = {
        "sources": {"source": source},
        "values": "real",
        "boundary": "reflect",
        "steps": [{"function": "module:clip", "params": {"low": "1"}}],
        "end": {"function": "workloads:HISTOGRAM", "params": {}},
        "partition": {"rule": "auto", "blocks": 1200, "largest": [2, 5]},
    }
    facts = provenance({"fingerprint": "f00", "code": "c0de", "summary": summary}, "dask-futures")
    assert facts["source"] == "s3://***@bucket/a.h5 and 2 more, mosaic, 4 x 5"
    assert facts["steps"] == "module:clip(low=1) -> workloads:HISTOGRAM()"
    assert facts["partition"] == "auto: 1,200 blocks, the largest 2 x 5"
    assert facts["output"] == "one result"
    assert "distributed 2" in facts["versions"]
    assert {"command", "host", "python", "processor"} <= facts.keys()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("run f s3://key:pass@b/x.h5 -o out", "run f s3://***@b/x.h5 -o out"),
        (
            "run f --api-token abc -p api_key=zz -o out",
            "run f --api-token *** -p api_key=*** -o out",
        ),
        (
            "https://h/a?sig=1&X-Amz-Signature=abc&x=1",
            "https://h/a?sig=***&X-Amz-Signature=***&x=***",
        ),
        ("my secret file.nii /a@b/c", "my secret file.nii /a@b/c"),
    ],
)
def test_secrets_are_left_out(text: str, kept: str) -> None:
    assert redact(text) == kept
