"""Operations on files as a user sees them: of a command, of a run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hyperslab.accesses import OPERATIONS, Accesses
from hyperslab.apps.experiment.trials.process import _numbers
from hyperslab.errors import UsageError
from hyperslab.report.files.page import phases_in
from hyperslab.storage.accounting.choosing import choose_of_each
from hyperslab.trace import Trace
from tests.repetitions import few
from tests.system.clusters.required import required
from tests.system.end_to_end.command import ANATOMICAL, call, call_program, succeed

TASKS = 6


def counted_by() -> str:
    """The way that is taken here; skips where there is none that knows each operation."""
    try:
        return choose_of_each().way
    except UsageError as why:
        required(str(why))
        raise


def test_a_command_is_counted_and_its_status_is_passed_on(tmp_path: Path) -> None:
    way = counted_by()
    script = f"echo hello > {tmp_path}/made; cat {tmp_path}/made; exit 5"
    rows = tmp_path / "rows.parquet"
    done = call_program("trace-files", "-o", rows, "--by", "directory", "sh", "-c", script)
    assert done.code == 5, done
    assert re.match(r"hello\n\n(Names, not bytes|Bytes, not names): ", done.out)
    mine = next(line for line in done.out.splitlines() if line.endswith(str(tmp_path)))
    asked, opened, created = mine.split()[:3]
    assert (asked, opened, created) == ("2", "1", "1")
    assert f"\ncounted by {way}: " in done.out
    assert ("\nnot by     bpf: " in done.out) == (way != "bpf")
    assert str(tmp_path / "made") in Accesses.load(rows).paths


def test_programs_read_it_as_json() -> None:
    done = call_program("trace-files", "--json", "--way", "proc", "sh", "-c", "echo hello; exit 2")
    assert done.code == 2
    assert "hello\n" in done.err
    told = json.loads(done.out)
    assert (told["status"], told["counted"]["way"]) == (2, "proc")
    assert told["files"]["total"]["operations"]["read"]["requested"] > 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--by", "colour", "true"], "--by colour: give some of directory, kind, phase"),
        (["--by", "kind,kind", "true"], "name each once"),
        (["--way", "proc", "-o", "x.parquet", "true"], "proc counts sums alone; leave -o out"),
        (["-o", "missing/x.parquet", "--way", "strace", "true"], "there is no directory"),
        (["-o", "/proc/x.parquet", "--way", "strace", "true"], "/proc/x.parquet: No such file or"),
        (["--way", "proc", "no-such-program"], "no-such-program: there is no such program"),
    ],
)
def test_what_cannot_be_counted_is_refused(given: list[str], said: str) -> None:
    done = call("trace-files", *given)
    assert done.code == 2
    assert said in done.err


def test_a_file_that_is_tried_stays_what_it_is(tmp_path: Path) -> None:
    """A link to a file that is to be made, and a file that nothing is counted into."""
    link, new = tmp_path / "link", tmp_path / "new"
    link.symlink_to(new)
    kept = tmp_path / "kept"
    kept.write_text("kept")
    for out in (link, kept, new):
        assert call("trace-files", "-o", out, "--way", "strace", "no-such-program").code == 2
    assert link.is_symlink()
    assert kept.read_text() == "kept"
    assert not new.exists()


BOTH = ["serial", "processes"]


@pytest.mark.parametrize("engine", few(BOTH[:1], BOTH, "what programs of a command do is counted"))
def test_our_reader_opens_a_file_once_for_each_task(tmp_path: Path, engine: str) -> None:
    counted_by()
    out = tmp_path / "out"
    source = tmp_path / "scan.nii"
    succeed("convert", ANATOMICAL, source, "--quiet")
    slots = ("--engine", engine, "--blocks", TASKS, "--no-trial")
    done = call_program("run", "increment", source, "-o", out, *slots, "--count-files")
    assert done.code == 0, done
    assert "\nfiles      " in done.out
    folder = out / ".hyperslab" / "run-0001"
    accesses = Accesses.load(folder / "accesses.parquet")
    tasks = between_tasks(accesses, Trace.load(folder / "trace.parquet"), str(source))
    assert tasks["open"] == TASKS
    page = (folder / "report.html").read_text()
    assert "<h2>Operations on files</h2>" in page
    assert "<h2>Operations on files</h2>" in _written_again(out, tmp_path / "again.html")
    numbers = json.loads((folder / "numbers.json").read_text())
    assert numbers["file_operations"] == len(accesses)
    assert _numbers(out)["file_operations"] == len(accesses)  # what an experiment keeps of a trial
    phases = phases_in(Trace.load(folder / "trace.parquet").meta)
    assert phases is not None
    assert {group.names["phase"] for group in phases.groups} == {"start", "tasks", "end"}


def _written_again(out: Path, page: Path) -> str:
    succeed("report", out, "-o", page)
    return page.read_text()


def between_tasks(accesses: Accesses, trace: Trace, path: str) -> dict[str, int]:
    """Operations on a file while tasks ran."""
    anchor = trace.meta["wall_anchor"]
    wall_ns = anchor["time_ns"] - anchor["monotonic_ns"]
    each = accesses.columns
    rows = (each["path"] == accesses.paths.index(path)) & (
        each["start_ns"] >= trace.meta["ready_ns"] + wall_ns
    )
    rows &= each["start_ns"] <= trace.meta["end_ns"] + wall_ns
    chosen = each["operation"][rows]
    return {name: int((chosen == n).sum()) for n, name in enumerate(OPERATIONS)}


def test_a_run_that_is_elsewhere_is_refused(tmp_path: Path) -> None:
    given = ("--engine", "dask-futures", "--connect", "tcp://127.0.0.1:1", "--count-files")
    done = call("run", "increment", ANATOMICAL, "-o", tmp_path / "out", *given)
    assert done.code == 2
    assert "--count-files counts what this host's processes of the run do" in done.err
