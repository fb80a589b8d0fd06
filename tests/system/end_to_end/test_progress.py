"""What a run says while it runs, and the status it exits with: in a log, on a terminal, with
--quiet, interrupted.
"""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

import hyperslab
from hyperslab.arrays import Array
from hyperslab.driver import notices
from hyperslab.report.progress import Bar, Lines, Quiet
from hyperslab.report.verdict.finding import STARVED, Finding, Verdict
from hyperslab.testing.holding import held
from tests.repetitions import few
from tests.system.end_to_end.command import (
    ANATOMICAL,
    AS_INSTALLED,
    call,
    call_program,
    outputs,
    start,
    succeed,
)
from tests.system.end_to_end.terminals import on_terminal, shown_here
from tests.system.faults.command import PATIENCE_S

pytestmark = pytest.mark.usefixtures("on_threads")

LINE = re.compile(r" *(\d+)%  (\d+)/(\d+) tasks  \S+ [kMG]?B/s  .* left")
MISBEHAVE = "hyperslab.testing.functions:misbehave"
ADD = "hyperslab.testing.functions:add"
COUNTED = "hyperslab.testing.functions:counted"
SERIAL = ("--engine", "serial", "--no-report")


def test_a_short_run_is_a_few_lines_of_a_log(tmp_path: Path) -> None:
    done = call(
        "run", "increment", ANATOMICAL, "-o", tmp_path / "out", "--blocks", "5x5x5", *SERIAL
    )
    assert done.code == 0
    assert "\r" not in done.err
    assert "\x1b" not in done.err
    told = [LINE.fullmatch(line) for line in done.err.splitlines()]
    assert 1 <= len(told) <= 10
    assert [match[2] for match in told if match][-1] == "125"


@pytest.mark.parametrize(
    ("tasks", "seconds_each", "shares"),
    [
        (40, 1.0, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        (40, 0.25, [0.1, 0.4, 0.7, 1.0]),
        (3, 60.0, [1 / 3, 2 / 3, 1.0]),
        (100, 0.01, [1.0]),
    ],
)
def test_a_log_has_few_lines_and_none_soon_after_another(
    tasks: int, seconds_each: float, shares: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    log = io.StringIO()
    lines = Lines(log)
    lines.begin(tasks, 0)
    for _ in range(tasks):
        now[0] += seconds_each
        lines.advance(1)
    lines.end()
    told = [LINE.fullmatch(line) for line in log.getvalue().splitlines()]
    assert [int(match[2]) / int(match[3]) for match in told if match] == shares


def test_the_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    command = (ADD, ANATOMICAL, "--blocks", "8", "-p", "seconds=0.02", "--workers", "2")
    for module in ("hyperslab.report.verdict", "hyperslab.report.measures"):
        monkeypatch.setattr(f"{module}.SHORT_S", 1000)  # a busy machine may take a second for it
    brief = succeed("run", *command, "-o", tmp_path / "brief")
    assert [line.split("  ")[0] for line in brief.splitlines()[1:]] == [
        "outputs",
        "records",
        "report",
    ], "a run this short is not judged"
    done = call("run", *command, "-o", out, "-v")
    assert done.code == 0
    headline = r"add over anatomical\.nii: 8 tasks in \S+ m?s on 2 slots, \S+ [kM]B/s"
    for told in (brief, done.out):
        assert re.fullmatch(headline, told.splitlines()[0]), told
    assert "too short to tell what limited it" in done.out
    assert re.search(r"^  throughput +too short to tell: that takes ", done.out, re.MULTILINE)
    for measure in (
        "makespan",
        "start-up",
        "read",
        "compute",
        "write",
        "overhead",
        "average parallelism",
        "throughput",
        "bytes moved",
        "cost of tracing",
    ):
        assert re.search(rf"^  {measure} +\S", done.out, re.MULTILINE), measure
    assert f"outputs    8 files in {out}\n" in done.out
    assert f"records    {out}/.hyperslab\n" in done.out
    report = re.search(r"^report     (.*)$", done.out, re.MULTILINE)
    assert report is not None
    assert Path(report[1]).read_text().startswith("<!DOCTYPE html>")


def test_paths_of_records_are_as_out_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for function, out in (("increment", "a"), ("stats", "b"), ("increment", tmp_path / "c")):
        told = succeed("run", function, ANATOMICAL, "-o", out, "--engine", "serial")
        assert f"\nrecords    {out}/.hyperslab\n" in told
        assert f"\nreport     {out}/.hyperslab/run-0001/" in told


def test_a_longer_run_says_cause_and_remedy_in_a_line_each(tmp_path: Path) -> None:
    command = (ADD, ANATOMICAL, "--blocks", "1", "-p", "seconds=1.2", "--workers", "2")
    shown = succeed("run", *command, "-o", tmp_path / "out").splitlines()
    assert [line.split("  ")[0] for line in shown[1:] if "short of processors" not in line] == [
        "cause",
        "remedy",
        "outputs",
        "records",
        "report",
    ]
    assert "1 task for 2 slots" in shown[1] or "waited" in shown[1]


def test_a_busy_machine_is_told_beside_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Finding("compute-bound", "The processors limited this run.", "", "Faster ones.", 0.9)
    starved = Finding(STARVED, "The machine was short of processors.", "", "Run again.", 0.6)
    monkeypatch.setattr("hyperslab.cli.outcome.judge", lambda *_: Verdict("", (first, starved)))
    shown = succeed("run", "increment", ANATOMICAL, "-o", tmp_path / "out", "--engine", "serial")
    assert shown.splitlines()[1:4] == [
        "cause      The processors limited this run.",
        "remedy     Faster ones.",
        "note       The machine was short of processors. Run again.",
    ]


class Heard(Quiet):
    """Keeps what it is told at the beginning."""

    begun: tuple[int, int] = (0, 0)

    def begin(self, tasks: int, nbytes: int, done: int = 0) -> None:
        self.begun = (tasks, done)


def picky(block: Array, slab: hyperslab.Hyperslab, mended: str) -> Array:
    if slab.start[2] == 10 and not Path(mended).exists():
        raise ValueError("not yet")
    return block


def test_progress_of_a_resumed_run_counts_from_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyperslab.report.progress.LINE_INTERVAL_S", 0)
    monkeypatch.setattr("hyperslab.report.progress.FIRST_LINE_S", 0)
    mended = tmp_path / "mended"
    source = hyperslab.Pipeline(str(ANATOMICAL))
    pipeline = source.map(picky, {"mended": str(mended)}).write(tmp_path / "out")
    settings: dict[str, Any] = {
        "engine": "serial",
        "rule": hyperslab.Rule("blocks", (1, 1, 5)),
        "retries": 0,
    }
    with contextlib.suppress(hyperslab.HyperslabError):
        hyperslab.run(pipeline, **settings)
    mended.touch()
    progress = Heard()
    hyperslab.run(pipeline, **settings, resume=True, progress=progress)
    assert progress.begun == (1, 4)
    lines = Lines(stream := io.StringIO())
    lines.begin(5, 100, done=15)
    lines.advance(20)
    lines.end()
    assert stream.getvalue().startswith(" 80%  16/20 tasks  ")


def test_quiet_says_nothing_on_success(tmp_path: Path) -> None:
    for verb, run, engine in (
        ("increment", call, "serial"),
        ("stats", call, "threads"),
        ("histogram", call_program, "processes"),
    ):
        line = ("run", verb, ANATOMICAL, "-o", tmp_path / verb, "--quiet", "--blocks", "3")
        done = run(*line, "--engine", engine)
        assert done == (0, "", "")
        assert outputs(tmp_path / verb)


def test_quiet_says_what_failed(tmp_path: Path) -> None:
    done = call(
        "run",
        MISBEHAVE,
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "--blocks",
        "3",
        "-q",
        "--retries",
        "2",
        "-p",
        "deed=raise",
        "-p",
        "at=0,0,0",
    )
    assert done.code == 1
    assert done.out == ""
    first, where, second = done.err.splitlines()
    reason = "ValueError: this block is not to my liking (after 3 attempts)"
    assert first == f"failed: {ANATOMICAL}[0:33, 0:41, 0:8]: {reason}"
    assert where.endswith(', in _raise: raise ValueError("this block is not to my liking")')
    assert second.startswith("1 of 3 tasks failed; fix the cause")


PICKY = """
import os, time
def picky(block, slab):
    if slab.start == (0, 0, 0):
        raise ValueError('too dark')
    while slab.start[2] > 8 and not os.path.exists({is_told!r}):
        time.sleep(0.01)
    return block
"""
"Its first block fails, and more than half of the others wait until that was told."


class Noted(io.StringIO):
    """A log that makes a file when it is told of a failure."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def write(self, text: str) -> int:
        if "failed: " in text:
            self._path.touch()
        return super().write(text)


BOTH = ["threads", "processes"]


@pytest.mark.parametrize("engine", few(BOTH[:1], BOTH, "a failure is shown on every engine"))
def test_a_failure_is_shown_while_the_run_goes_on_with_path_and_reason(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "HELD_S", 0.1)
    monkeypatch.setattr("hyperslab.report.progress.LINE_INTERVAL_S", 0)
    monkeypatch.setattr("hyperslab.report.progress.FIRST_LINE_S", 0)
    code = tmp_path / "mine.py"
    code.write_text(PICKY.format(is_told=str(tmp_path / "told")))
    pipeline = hyperslab.Pipeline(ANATOMICAL).map(f"{code}:picky").write(tmp_path / "out")
    options = hyperslab.Options(
        engine=engine, blocks="1x1x12", retries=0, workers=2, report=False, trial=False
    )
    log = Noted(tmp_path / "told")
    hyperslab.run(pipeline, options, progress=Lines(log), check=False)
    lines = log.getvalue().splitlines()
    said = [number for number, line in enumerate(lines) if line.startswith("failed: ")]
    label = f"failed: {ANATOMICAL}[0:33, 0:41, 0:2]: ValueError: too dark"
    assert [lines[number] for number in said] == [f"{label} ({code}:5)"]
    assert said[0] < max(number for number, line in enumerate(lines) if LINE.fullmatch(line)) - 3


def test_only_the_first_of_many_failures_are_told(tmp_path: Path) -> None:
    code = tmp_path / "mine.py"
    code.write_text(
        "def never(block, slab):\n    raise ValueError('no' * (1 + slab.start[2] // 2))\n"
    )
    done = call(
        "run",
        f"{code}:never",
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "--blocks",
        "1x1x9",
        "--retries",
        "0",
    )
    assert done.code == 1
    assert done.err.count("no (after 1 attempt)\n") == 5
    assert "and 4 other reasons; the report lists all of them\n9 of 9 tasks failed" in done.err
    log = io.StringIO()
    lines = Lines(log)
    for number in range(9):
        lines.failed("block", f"reason {number}", will_retry=False, place="")
    lines.end()
    *told, last = log.getvalue().splitlines()
    assert len(told) == 5
    assert last == "further failures are listed at the end and in the report"


def test_a_live_bar_on_a_terminal(tmp_path: Path) -> None:
    shown = on_terminal(
        "run", ADD, ANATOMICAL, "-o", tmp_path / "out", "--blocks", "1x1x12", "-p", "seconds=0.1"
    )
    assert "━" in shown
    assert re.search(r"\d+/12", shown)
    assert re.search(r"[\d.]+ [kM]?B/s", shown)
    assert "\x1b[" in shown
    assert not re.search(r"\d+%  \d+/12 tasks", shown)


def test_a_bar_is_of_one_submission_at_a_time() -> None:
    """A call of `hyperslab bids` may have two, one after the other."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        bar = Bar(terminal)
        for tasks in (2, 3):
            bar.begin(tasks, 0)
            bar.advance(1)
            bar.end()
        assert [(one.completed, one.total) for one in bar._bar.tasks] == [(1, 3)]
    os.close(ours)


def test_a_failure_stays_on_the_terminal(tmp_path: Path) -> None:
    shown = shown_here(
        "run",
        MISBEHAVE,
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "--blocks",
        "1x1x6",
        "--retries",
        "0",
        "-p",
        "deed=raise",
        "-p",
        "at=0,0,4",
        code=1,
    )
    assert "this block is not to my liking" in shown


def test_quiet_on_a_terminal(tmp_path: Path) -> None:
    assert shown_here("run", "increment", ANATOMICAL, "-o", tmp_path / "out", "-q") == ""


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture
def _heard() -> Iterator[None]:
    """Commands do not ignore the end of a terminal, as what nohup has started does."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def counted(tmp_path: Path) -> tuple[object, ...]:
    """A run of 25 blocks, which can be held."""
    runs = tmp_path / "runs"
    runs.mkdir()
    params = ("--blocks", "1x1x25", "-p", f"folder={runs}", "-p", "seconds=0.2")
    return ("run", COUNTED, ANATOMICAL, "-o", tmp_path / "out", *params)


@pytest.mark.usefixtures("_heard")
@pytest.mark.parametrize("number", few(SIGNALS[1:], SIGNALS, "Ctrl-C ends a run: test_driver.py"))
def test_an_interrupted_run_exits_with_130_and_goes_on_later(
    tmp_path: Path, number: signal.Signals
) -> None:
    command = counted(tmp_path)
    over = ("--overwrite",) if number == signal.SIGTERM else ()
    with held(tmp_path / "runs"):
        process = start(*command, *over)
        first = pipe(process.stderr).readline()
        assert LINE.fullmatch(first.rstrip("\n"))
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    place = " in place of --overwrite" if over else ""
    assert (
        err.splitlines()[-1]
        == f"hyperslab: interrupted: run the same command with --resume{place} to continue"
    )
    assert "Traceback" not in err
    assert out == ""
    status = call("status", tmp_path / "out")
    assert status.code == 1
    assert status.out.startswith("state      stopped\n")
    assert "--resume" in status.out
    planned = succeed("run", *command[1:], "--resume", "--dry-run")
    assert re.search(r"tasks      \d+ to do, \d+ already done", planned)


def test_who_is_told_to_ignore_ctrl_c_does(tmp_path: Path) -> None:
    """As a script has what it starts in the background: Ctrl-C is meant for what is in the
    foreground.
    """
    ignoring = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {AS_INSTALLED[2]}"
    arguments = (
        "run",
        ADD,
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "--blocks",
        "1x1x8",
        "-p",
        "seconds=0.1",
        "--engine",
        "threads",
    )
    line = [*AS_INSTALLED[:2], ignoring, *map(str, arguments)]
    with subprocess.Popen(
        line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        pipe(process.stderr).readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


def test_cancel_from_another_process(tmp_path: Path) -> None:
    command = counted(tmp_path)
    with held(tmp_path / "runs"):
        process = start(*command)
        pipe(process.stderr).readline()
        status = succeed("status", tmp_path / "out")
        assert status.startswith("state      running (pid ")
        assert (
            succeed("cancel", tmp_path / "out")
            == "cancelled; run the same command with --resume to continue\n"
        )
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert err.splitlines()[-1].startswith("hyperslab: the run was cancelled; ")


def test_a_reader_that_leaves_early(tmp_path: Path) -> None:
    process = start("info", ANATOMICAL)
    pipe(process.stdout).close()
    process.stdout = None
    _, err = process.communicate(timeout=PATIENCE_S)
    assert err == ""
    assert process.returncode == 1


def pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def test_exit_statuses(tmp_path: Path) -> None:
    assert call("run", "increment", ANATOMICAL, "-o", tmp_path / "a").code == 0
    assert (
        call(
            "run", MISBEHAVE, ANATOMICAL, "-o", tmp_path / "b", "-p", "deed=raise", "-p", "at=0,0,0"
        ).code
        == 1
    )
    assert call("run", "incremnt", ANATOMICAL, "-o", tmp_path / "c").code == 2
    assert call("status", tmp_path / "a").code == 0
    assert call("status", tmp_path / "b").code == 1
    assert call("status", tmp_path / "c").code == 2
