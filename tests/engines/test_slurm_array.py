"""What a driver makes of what Slurm says of the jobs of a round; no Slurm is needed."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperslab.engines import EngineOptions
from hyperslab.engines.slurm import array, commands, requests, submitted
from hyperslab.engines.slurm.array import Array
from hyperslab.engines.slurm.commands import Job, Silent, Unanswered
from hyperslab.engines.slurm.engine import Slurm
from hyperslab.engines.slurm.submitted import Request, SubmittedJobs, pieces
from hyperslab.engines.slurm.waiting import Chain, Waited, missing_s
from hyperslab.errors import RunStopped
from hyperslab.plan.journal import SlotJournal
from hyperslab.plan.task import Outcome
from hyperslab.trace import Phase

SUBMITTED = SubmittedJobs("name", "round", 2, 2, arrays=(("7", 0, 2),))


@pytest.mark.parametrize("rest", ["7", "7_[1-3%2]"])
def test_what_is_said_of_the_rest_of_an_array_is_said_of_each(tmp_path: Path, rest: str) -> None:
    """But not of elements whose end is known, though Slurm has forgotten them."""
    watched = Array(tmp_path, replace(SUBMITTED, count=4, arrays=(("7", 0, 4),)))
    watched._take([Job("7_0", "COMPLETED", host="a"), Job("7_1", "RUNNING", host="a")])
    told = watched._take([Job("7_1", "COMPLETED", host="a"), Job(rest, "CANCELLED")])
    states = [watched.jobs[number].state for number in range(4)]
    assert states == ["COMPLETED", "COMPLETED", "CANCELLED", "CANCELLED"]
    assert (watched.jobs[3].id, told) == ("7_3", {1, 2, 3})


@pytest.mark.parametrize("largest", [1, 3, 1000])
@pytest.mark.parametrize("throttle", [1, 2, 7])
def test_chains_of_arrays_share_the_throttle(largest: int, throttle: int) -> None:
    found = list(pieces(22, throttle, largest))
    assert [n for first, size, _, _ in found for n in range(first, first + size)] == list(range(22))
    sizes = [size for _, size, _, _ in found]
    assert max(sizes) <= min(sizes) + 1 <= largest + 1, "no share lies idle before others"
    assert max(sizes) <= largest
    at_once = [share for _, _, share, before in found if before is None]
    assert sum(at_once) == throttle
    for number, (_, _, share, before) in enumerate(found):
        assert share >= 1
        if before is not None:
            assert before < number
            assert found[before][2] == share, "a chain keeps its share"


def test_the_last_job_of_a_detached_run_waits_for_every_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays of at most two elements, which run two at a time together; the third one waits for the
    first, whose place it takes.
    """
    asked: list[list[str]] = []

    def taken(_script: str, arguments: Sequence[str], _without: Sequence[str]) -> str:
        asked.append([a for a in arguments if a.startswith(("--array", "--dependency"))])
        return str(6 + len(asked))

    monkeypatch.setattr(commands, "submit", taken)
    monkeypatch.setattr(commands, "cluster", lambda: "here")
    monkeypatch.setattr(commands, "largest_array", lambda: 2)
    given = replace(SUBMITTED, count=5, throttle=2, is_detached=True, arrays=())
    left = submitted.submit(tmp_path, given, Request([], lambda first: f"from {first}"))
    assert asked == [
        ["--array=0-0%1"],
        ["--array=0-1%1"],
        ["--dependency=afterany:7", "--array=0-1%1"],
        ["--dependency=afterany:7:8:9"],
    ]
    assert left.arrays == (("7", 0, 1), ("8", 1, 2), ("9", 3, 2))
    assert (left.last, submitted.load(tmp_path)) == ("10", left)


def test_the_end_of_a_job_is_told_in_words(tmp_path: Path) -> None:
    watched = Array(tmp_path, SUBMITTED)
    watched.jobs = {0: Job("7_0", "TIMEOUT"), 1: Job("7_1", "FAILED", "NonZeroExitCode")}
    assert watched.how_it_ended(0) == (
        "died (Slurm job 7_0 ran out of time; --slurm-option time=... gives more)"
    )
    assert watched.how_it_ended(1) == "", "the script knows more"


def test_jobs_that_fail_after_their_tasks_accuse_no_host(tmp_path: Path) -> None:
    """As where a library crashes at the end of its process."""
    watched = Array(tmp_path, SUBMITTED)
    watched.jobs = {0: Job("7_0", "COMPLETED", host="a"), 1: Job("7_1", "FAILED", host="b")}
    watched.require_hosts(tmp_path / "log", begun=2)
    with pytest.raises(RunStopped, match=r"^all of Slurm's jobs on b failed, and those on a did"):
        watched.require_hosts(tmp_path / "log", begun=1)
    watched.jobs[0] = replace(watched.jobs[0], host="b")
    watched.require_hosts(tmp_path / "log", begun=1)


def test_a_job_that_begins_again_is_one_that_has_begun(tmp_path: Path) -> None:
    """It would stand for one that failed before its first task."""
    (tmp_path / "journal").mkdir()
    for name in ("a.w71.t5.5.0a", "a.w71.t6.6.0b", "a.w72.t5.5.0c", "driver.a0.0"):
        (tmp_path / "journal" / f"{name}.jsonl").touch()
    engine = Slurm(EngineOptions(tmp_path, 2))
    assert engine._begun() == {"71": "a", "72": "a"}


def test_jobs_that_slurm_has_forgotten_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its accounting may know how."""
    running = Job("7_0", "RUNNING", start_s=1, end_s=10**9)
    answers = [[running, Job("7_1", "PENDING"), Job("8", "RUNNING")], []]
    monkeypatch.setattr(commands, "jobs", lambda numbers: answers.pop(0))
    monkeypatch.setattr(commands, "accounted", lambda numbers: [Job("7_1", "OUT_OF_MEMORY")])
    watched = Array(tmp_path, SUBMITTED)
    assert not watched.is_over(0)
    watched.ask()
    assert watched.has_ended
    assert watched.jobs[0].end_s is None, "when it was to end says nothing"
    assert [watched.jobs[n].state for n in (0, 1)] == ["FORGOTTEN", "OUT_OF_MEMORY"]


@pytest.mark.parametrize(
    ("reason", "is_hopeless"),
    [
        ("InvalidAccount", True),
        ("QOSMaxWallDurationPerJobLimit", True),
        ("AssocMaxMemPerJob", True),
        ("QOSMaxCpuPerNode", True),
        ("QOSMinCpuNotSatisfied", True),
        ("Resources", False),
        ("QOSMaxJobsPerUserLimit", False),
        ("AssocGrpCpuLimit", False),
        ("AssocMaxJobsLimit", False),
    ],
)
def test_jobs_that_ask_for_too_much_are_not_waited_for(
    tmp_path: Path, reason: str, is_hopeless: bool
) -> None:
    watched = Array(tmp_path, SUBMITTED)
    watched.jobs = {n: Job(f"7_{n}", "PENDING", reason) for n in (0, 1)}
    if not is_hopeless:
        watched.require_hope()
        return
    with pytest.raises(RunStopped, match=rf"will not begin 2 jobs of the run \({reason}\)"):
        watched.require_hope()


def test_waiting_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Array(tmp_path, SUBMITTED)
    watched.jobs = {0: Job("7_0", "COMPLETED"), 1: Job("7_1", "PENDING", "Resources")}
    watched.require_hope()
    watched.jobs[1] = replace(watched.jobs[1], reason="InvalidAccount")
    with pytest.raises(RunStopped, match=r"will not begin 1 job of the run \(InvalidAccount\)"):
        watched.require_hope()

    def silent(numbers: Any) -> Any:
        raise Unanswered("no answer")

    watched.jobs = {}
    monkeypatch.setattr(commands, "jobs", silent)
    monkeypatch.setattr(array, "SILENCE_LIMIT_S", -1.0)
    assert not watched.is_over(0)
    with pytest.raises(RunStopped, match="controller has not answered for"):
        watched.require_hope()


def test_jobs_whose_driver_is_silent_do_nothing(tmp_path: Path) -> None:
    heartbeat = tmp_path / "it's alive"
    heartbeat.touch()
    (tmp_path / "run.sh").write_text('echo "batch $1"')
    text = requests.element_script(tmp_path / "run.sh", 40, heartbeat)

    def said() -> str:
        environment = {**os.environ, "SLURM_ARRAY_TASK_ID": "2"}
        line = ["sh", "-c", text]
        return subprocess.run(
            line, env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert said() == "batch 42\n"
    long_ago = time.time() - 60 * (requests.SILENT_MIN + 1)
    os.utime(heartbeat, (long_ago, long_ago))
    assert said() == ""
    heartbeat.unlink()
    assert said() == ""


def test_time_in_the_queue_is_that_of_slots_which_jobs_waited_for() -> None:
    jobs = [
        Job("1_0", "COMPLETED", submitted_s=0, start_s=10, end_s=20),
        Job("1_1", "COMPLETED", submitted_s=0, start_s=15, end_s=25),
        Job("1_2", "COMPLETED", submitted_s=0, start_s=22, end_s=30),
        Job("1_3", "PENDING", submitted_s=0),
    ]
    assert missing_s(Chain(jobs, 2), 10) == 5 + 2, "one slot until 15, and from 20 to 22"
    assert missing_s(Chain(jobs, 1), 10) == 0
    assert missing_s(Chain([], 2), 10) == 0
    first = Waited().and_round([Chain(jobs, 2)])
    assert (first.submitted_s, first.first_s, first.missing_s, first.jobs) == (0, 10, 7, 4)
    again = [Job("2_0", "COMPLETED", submitted_s=40, start_s=43, end_s=50)]
    both = first.and_round([Chain(again, 2)])
    assert (both.submitted_s, both.first_s, both.missing_s, both.jobs) == (0, 10, 7 + 3, 5)
    assert both.and_round([Chain([Job("3_0", "PENDING", submitted_s=60)], 2)]) == both
    ended = first.and_round([Chain(again, 2)], driver_s=56)
    assert ended.missing_s == both.missing_s + 2 * 6, "both slots waited for the driver"


def test_elements_whose_turn_has_not_come_do_not_wait_for_the_queue(tmp_path: Path) -> None:
    """Of two chains of arrays of two elements each, one ends later."""
    arrays = tuple((str(number), 2 * number, 2) for number in range(4))
    watched = Array(tmp_path, replace(SUBMITTED, count=8, throttle=2, arrays=arrays))
    spans = [(0, 10), (10, 20), (0, 20), (20, 40), (22, 30), (30, 40), (40, 50), (50, 60)]
    watched.jobs = {
        number: Job(f"{number // 2}_{number % 2}", "COMPLETED", "", "a", 0.0, *map(float, span))
        for number, span in enumerate(spans)
    }
    first, second = watched.chains(watched.jobs)
    assert [job.submitted_s for job in first.jobs] == [0, 0, 20, 20]
    assert missing_s(first, 0) == 2, "its second array began 2 s late"
    assert missing_s(second, 0) == 0
    assert Waited().and_round([first, second]).missing_s == 2


def test_what_slurm_has_forgotten_is_told_by_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it has been asked again, as it was silent at first; the queue is not taken for the
    run.
    """
    answers: list[list[Job] | Silent] = [Silent("timed out"), []]

    def asked(numbers: Sequence[str]) -> list[Job]:
        answer = answers.pop(0)
        if isinstance(answer, Silent):
            raise answer
        return answer

    monkeypatch.setattr(commands, "jobs", asked)
    monkeypatch.setattr(submitted, "SILENCE_PAUSE_S", 0)
    ahead_ns = time.time_ns() - time.monotonic_ns()
    submitted_s = time.time() - 80
    given = replace(SUBMITTED, is_detached=True, submitted_s=submitted_s)
    submitted.save(tmp_path, replace(given, wall_less_monotonic_ns=ahead_ns))
    for name in ("journal", "partials"):
        (tmp_path / name).mkdir()
    start_ns = int(submitted_s * 1e9) - ahead_ns + 10 * 10**9
    phase = Phase("compute", start_ns, start_ns + 5 * 10**9, 0, 0, 0)
    journal = SlotJournal(tmp_path, "a/w7/t8", "7.0a")
    journal.take(Outcome(0, 0, "done", phases=(phase,)))
    journal.close()
    engine = Slurm(EngineOptions(tmp_path, 2, last_job=("true",)))
    engine.start()
    engine.leave()
    queued = engine.queued()
    assert answers == []
    assert queued is not None
    assert queued.waited_s == pytest.approx(10, abs=0.01)
    assert queued.first_ns == pytest.approx(start_ns, abs=10**7)
    assert list(engine.own_times()) == [], "nobody has told any"


def test_a_driver_s_own_time_in_the_queue_is_the_run_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    jobs = [
        Job(f"7_{n}", "COMPLETED", submitted_s=now - 80, start_s=now - 70, end_s=now - 40)
        for n in (0, 1)
    ]
    monkeypatch.setattr(commands, "jobs", lambda numbers: jobs)
    submitted.save(tmp_path, replace(SUBMITTED, is_detached=True))
    (tmp_path / "journal").mkdir()
    engine = Slurm(EngineOptions(tmp_path, 2, last_job=("true",)))
    engine.start()
    engine.leave()
    queued = engine.queued()
    assert queued is not None
    assert queued.waited_s == 10
    late_s = time.time() - now
    assert 80 <= queued.missing_s <= 80 + 2 * late_s + 1, (
        "40 s of two slots, however busy it is here"
    )
