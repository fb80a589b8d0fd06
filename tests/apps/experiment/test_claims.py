"""Claims of papers: judged as the numbers of a record say, and shown on a page with its figures."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.answers.comparison import WITHOUT_START
from hyperslab.apps.experiment.answers.phases import CellPhases, Phases, Waits
from hyperslab.apps.experiment.claims.block_limit import WHOLE_FILES
from hyperslab.apps.experiment.claims.claim import (
    Claim,
    Evidence,
    Judged,
    expecting,
    outcome_of,
    rising,
)
from hyperslab.apps.experiment.claims.page import (
    PAPERS,
    Finding,
    Paper,
    findings_of,
    judged,
    paper_of,
    write_verdicts,
)
from hyperslab.apps.experiment.design.cells import trials_of
from hyperslab.apps.experiment.design.shipped import SpecFile, find
from hyperslab.apps.experiment.trials.record import Record, append
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.cli import verdicts as command
from hyperslab.errors import UsageError
from tests.apps.experiment.specs import TEXT, attempt, experiment, record_of
from tests.system.end_to_end.command import call

DASK = "dask-vs-spark"
INCREMENTATION = f"{DASK}/incrementation"
HISTOGRAM = f"{DASK}/histogram"
THREADS = f"{DASK}/threads"
READS = f"{DASK}/staggered-reads"
TIERS = "storage-tiers/incrementation"
ENGINES = ("dask-bag", "dask-delayed", "dask-futures", "spark")
LIMIT = f"{DASK}/block-limit"
FULL = "java.lang.OutOfMemoryError"
JAVA = f"{FULL}: Required array size too large"


def outcomes(
    spec: str,
    factors: Mapping[str, Sequence[float]],
    root: Path,
    starts: Mapping[str, float] | None = None,
) -> dict[str, str]:
    """What comes of the claims that an experiment judges, whose cells took so long."""
    asked = Experiment.of(find(spec).load("quick"), root)
    return outcomes_of(asked, record_of(asked, factors, {"processors": 2}, starts or {}))


def outcomes_of(asked: Experiment, record: Record) -> dict[str, str]:
    name = asked.loaded.name
    paper = PAPERS[name.partition("/")[0]]
    found = judged(paper, [Finding(asked, answer_of(asked, record))])
    return {claim.text: one.outcome for claim, one in found if claim.spec == name}


def outcome(found: Mapping[str, str], words: str) -> str:
    (one,) = [said for text, said in found.items() if words in text]
    return one


def varied(by: float) -> tuple[float, float, float]:
    return by * 0.99, by, by * 1.01


def test_engines_that_take_as_long_are_equivalent(tmp_path: Path) -> None:
    found = outcomes(INCREMENTATION, {}, tmp_path)
    assert outcome(found, "Dask's interfaces and Spark") == "reproduced"
    found = outcomes(INCREMENTATION, {"engine spark": varied(2)}, tmp_path)
    assert outcome(found, "Dask's interfaces and Spark") == "mixed", "at other workers it is so"
    cells = [f"engine spark{workers}" for workers in ("", ", workers 4")]
    found = outcomes(INCREMENTATION, dict.fromkeys(cells, varied(2)), tmp_path)
    assert outcome(found, "Dask's interfaces and Spark") == "refuted"
    noisy = dict.fromkeys(cells, (0.3, 1.0, 4.0))
    assert outcome(outcomes(INCREMENTATION, noisy, tmp_path), "Dask's interfaces") == "open"


def test_spark_is_beside_every_interface_at_every_number_of_workers(tmp_path: Path) -> None:
    """Not beside the slowest one alone: one interface that is faster with more workers counts."""
    fast = {"engine dask-futures, workers 4": varied(0.8)}
    found = outcomes(INCREMENTATION, fast, tmp_path)
    assert outcome(found, "Dask's interfaces and Spark") == "mixed"


def test_a_difference_refutes_equivalence_beyond_the_margin_alone(tmp_path: Path) -> None:
    """Ratios of 1.095 by a margin of 1.1 are more than 1, and nobody knows whether beyond."""
    near = (1.085, 1.095, 1.105)
    engines = {f"engine spark{workers}": near for workers in ("", ", workers 4")}
    assert outcome(outcomes(INCREMENTATION, engines, tmp_path), "Dask's interfaces") == "open"
    idle = {"tier idle, engine spark, delay 1.4": near}
    assert outcome(outcomes(READS, idle, tmp_path), "where storage is idle") == "open"
    asked = Experiment.of(find(INCREMENTATION).load("quick"), tmp_path)
    finding = Finding(asked, answer_of(asked, record_of(asked, engines, {}, {})))
    told = [text for _, one in judged(PAPERS[DASK], [finding]) for text in one.evidence]
    words = "over 6 pairs: slower, and whether by more than 10 % is open."
    spark = [text for text in told if "engine spark takes" in text and text.endswith(words)]
    assert len(spark) == 6, "three interfaces, and two numbers of workers"


def test_that_nothing_is_faster_is_one_test(tmp_path: Path) -> None:
    """Ratios of 1.07 are neither shown to be equivalent nor slower among five, and not faster."""
    cells = ["workers 4", *(f"engine {name}, workers 4" for name in ENGINES)]
    found = outcomes(INCREMENTATION, dict.fromkeys(cells, (1.05, 1.07, 1.09)), tmp_path)
    assert outcome(found, "stop falling") == "reproduced"
    found = outcomes(INCREMENTATION, dict.fromkeys(cells, (0.9, 0.91, 0.92)), tmp_path)
    assert outcome(found, "stop falling") == "open", "faster, and not beyond the margin"


def test_more_workers(tmp_path: Path) -> None:
    assert outcome(outcomes(INCREMENTATION, {}, tmp_path), "stop falling") == "reproduced"
    cells = ["workers 4", *(f"engine {name}, workers 4" for name in ENGINES)]
    fast = dict.fromkeys(cells, varied(0.5))
    assert outcome(outcomes(INCREMENTATION, fast, tmp_path), "stop falling") == "refuted"
    late = dict.fromkeys(cells, varied(1.2))
    starts = dict.fromkeys(cells, 0.7)
    found = outcomes(INCREMENTATION, late, tmp_path, starts=starts)
    assert outcome(found, "stop falling") == "refuted", "the start alone takes longer"
    noisy = dict.fromkeys(cells[1:], (0.3, 1.0, 4.0))
    found = outcomes(INCREMENTATION, noisy, tmp_path)
    assert outcome(found, "stop falling") == "in part", "one that tells is not five"
    found = outcomes(INCREMENTATION, noisy | {"workers 4": varied(0.5)}, tmp_path)
    assert outcome(found, "stop falling") == "refuted in part"


def test_the_start_of_an_engine_is_told_from_the_rest(tmp_path: Path) -> None:
    """It counts for nothing where a claim is about long pipelines, and the page has it."""
    asked = Experiment.of(find(INCREMENTATION).load("quick"), tmp_path)
    cells = ["engine spark", "engine spark, workers 4"]
    slow = dict.fromkeys(cells, varied(2))
    record = record_of(asked, slow, {}, starts=dict.fromkeys(cells, 1.0))
    found = judged(PAPERS[DASK], [Finding(asked, answer_of(asked, record))])
    (told,) = [one for claim, one in found if claim.text.startswith("Dask's interfaces")]
    assert told.outcome == "reproduced"
    assert told.evidence[0].startswith("6 of 6 comparisons told: 6 as the paper states")
    assert (
        "With the start of engines, which does not count here, engine spark takes 2.00 x (1.98 to"
        " 2.02) as long as dask-bag, over 6 pairs."
    ) in told.evidence
    unknown = outcomes_of(asked, record_of(asked, {}, {}))
    assert outcome(unknown, "Dask's interfaces and Spark") == "not tested", "no start is known"


def test_what_the_lock_costs(tmp_path: Path) -> None:
    """On both engines, whose slots are threads: makespans, and the time in pure Python."""
    alike = outcomes(THREADS, {}, tmp_path, starts={})
    for function in ("NumPy", "sleeps", "program"):
        assert outcome(alike, function) == "refuted"
    assert outcome(alike, "pure Python") == "mixed", "no speed-up, and tasks as long"
    one = "workload hyperslab.apps.experiment.lock:sleep, threads 1"
    two = one.replace(", threads", ", engine dask-futures, threads")
    found = outcomes(THREADS, {one: varied(2)}, tmp_path, starts={})
    assert outcome(found, "sleeps") == "mixed"
    assert outcome(found, "NumPy") == "refuted"
    found = outcomes(THREADS, {one: varied(2), two: varied(2)}, tmp_path, starts={})
    assert outcome(found, "sleeps") == "reproduced"
    python = {"threads 1": varied(0.5), "engine dask-futures, threads 1": varied(0.5)}
    assert outcome(outcomes(THREADS, python, tmp_path, starts={}), "pure Python") == "reproduced"


def test_tasks_that_take_longer_are_a_speed_up_all_the_same(tmp_path: Path) -> None:
    """Two threads, each 1.3 times as slow, are done sooner than one."""
    asked = Experiment.of(find(THREADS).load("quick"), tmp_path)
    threads = {trial.number: trial.cell.levels["threads"] for trial in asked.trials}
    attempts = []
    for one in record_of(asked, {}, {}, starts={}).attempts:
        drift = 1 + 0.01 * one.replicate
        has_two = threads[one.number] == 2
        seconds = {"compute_s": 1.3 if has_two else 1.0, WITHOUT_START: 0.65 if has_two else 1.0}
        own = {name: value * drift for name, value in seconds.items()}
        attempts.append(dataclasses.replace(one, numbers={**one.numbers, **own}))
    record = Record([], attempts, 0, {one.number: [one] for one in attempts})
    assert outcome(outcomes_of(asked, record), "pure Python") == "mixed"


def test_histograms_on_engines_with_a_lock(tmp_path: Path) -> None:
    alike = outcomes(HISTOGRAM, {}, tmp_path)
    assert outcome(alike, "Spark is faster than Dask") == "refuted"
    assert outcome(alike, "in compiled code") == "reproduced"
    found = outcomes(HISTOGRAM, {"engine spark": varied(0.5)}, tmp_path)
    assert outcome(found, "Spark is faster than Dask") == "reproduced"


def test_overhead_that_grows(tmp_path: Path) -> None:
    asked = Experiment.of(find(INCREMENTATION).load("quick"), tmp_path)
    grown = {f"engine {name}, workers 4": {"overhead_s": 3.0} for name in ENGINES}
    found = outcomes_of(asked, with_numbers(asked, grown))
    assert outcome(found, "Overhead grows with") == "reproduced"
    assert outcome(found, "least on Spark") == "open"
    grown["engine spark, workers 4"] = {"overhead_s": 2.0}
    found = outcomes_of(asked, with_numbers(asked, grown))
    assert outcome(found, "least on Spark") == "in part", "Futures like the others"
    grown["engine dask-futures, workers 4"] = {"overhead_s": 4.0}
    found = outcomes_of(asked, with_numbers(asked, grown))
    assert outcome(found, "least on Spark") == "reproduced"
    less = {f"engine {name}, workers 4": {"overhead_s": 1.0} for name in ENGINES}
    found = outcomes_of(asked, with_numbers(asked, less))
    assert outcome(found, "Overhead grows with") == "refuted"


def with_numbers(asked: Experiment, planted: Mapping[str, Mapping[str, float]]) -> Record:
    """A record whose cells have these numbers, all others the same overhead and transfer."""
    usual = {"overhead_s": 2.0, "read_s": 2.0, "write_s": 0.0}
    names = {one.cell.key: one.cell.name for one in trials_of(asked.loaded.spec)}
    attempts = []
    for one in record_of(asked, {}, {}, {}).attempts:
        drift = 1 + 0.01 * one.replicate * (1 + one.number % 3)
        own = {**usual, **planted.get(names[one.key], {})}
        noisy = {name: value * drift for name, value in own.items()}
        attempts.append(dataclasses.replace(one, numbers={**one.numbers, **noisy}))
    return Record([], attempts, 0, {one.number: [one] for one in attempts})


def test_the_barrier_of_a_bids_app(tmp_path: Path) -> None:
    """Of time without anything to do, most is before the group level, or elsewhere; with intervals,
    and which engine tells what.
    """
    asked = Experiment.of(find(f"{DASK}/bids").load("quick"), tmp_path)
    answer = answer_of(asked, record_of(asked, {}, {}))

    def said(barriers: Mapping[str, float]) -> Judged:
        phases = [
            CellPhases(one, waiting(barriers[str(one.cell.levels["engine"])]))
            for one in answer.results
            if str(one.cell.levels["engine"]) in barriers
        ]
        found = judged(PAPERS[DASK], [Finding(asked, dataclasses.replace(answer, phases=phases))])
        (told,) = [told for claim, told in found if "lies at the barrier" in claim.text]
        return told

    engines = [str(asked.loaded.spec.baseline["engine"]), *ENGINES]
    assert said(dict.fromkeys(engines, 9.0)).outcome == "reproduced"
    assert said(dict.fromkeys(engines, 1.0)).outcome == "refuted"
    assert said({}).outcome == "not tested", "records without traces"
    mixed = said({"dask-bag": 9.0, "spark": 3.0})
    assert mixed.outcome == "in part"
    assert mixed.evidence[1].startswith("Slots of dask-bag without anything")
    assert "9 (8.75 to 9.25) at the barrier" in mixed.evidence[1]
    assert mixed.evidence[1].endswith(": as the paper states.")
    assert mixed.evidence[2].endswith(": open.")
    found = outcomes_of(asked, record_of(asked, {}, {}, {}))
    assert outcome(found, "A BIDS App takes as long") == "reproduced"


def waiting(barrier_s: float) -> list[Phases]:
    """Trials of three replicates that wait so long at the barrier, and three seconds elsewhere."""
    return [
        Phases({}, None, None, replicate, waits=Waits(barrier_s + off, 3.0 - off))
        for replicate, off in enumerate((-0.1, 0.0, 0.1), 1)
    ]


def test_a_partition_whose_blocks_sleep_tells_half(tmp_path: Path) -> None:
    cells = [
        f"{where}files {files}"
        for where in ("", *(f"engine {name}, " for name in ENGINES))
        for files in (4, 64)
    ]
    slow = dict.fromkeys(cells, varied(2))
    found = outcomes(INCREMENTATION, slow, tmp_path, starts={})
    assert outcome(found, "best number of blocks") == "open"
    assert outcome(outcomes(INCREMENTATION, {}, tmp_path, starts={}), "best number") == "refuted"


def test_a_best_number_of_blocks_has_more_and_fewer_that_take_longer(tmp_path: Path) -> None:
    """Where only more of them do, there is none on any engine, and none in part."""
    prefixes = ["", *(f"engine {name}, " for name in ENGINES)]
    more = {f"{engine}files 64": varied(2) for engine in prefixes}
    found = outcomes(INCREMENTATION, more, tmp_path, starts={})
    assert outcome(found, "best number of blocks") == "refuted"
    noisy = {f"{engine}files 4": (0.3, 1.0, 4.0) for engine in prefixes}
    found = outcomes(INCREMENTATION, more | noisy, tmp_path, starts={})
    assert outcome(found, "best number of blocks") == "open", "whether fewer do is not known"


def test_claims_say_what_they_leave_out(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    record = record_of(asked, {"iterations 2": varied(2)}, {})
    append(asked.directory.record, record.sessions[0])
    for one in record.attempts:
        starved = "others" if one.replicate == 1 and one.levels["iterations"] == 2 else ""
        append(asked.directory.record, dataclasses.replace(one, starved=starved))
    paper = Paper("page", "Small", "Nobody", (Claim("Two take longer.", "small", longer),))
    (_, found), *_ = judged(paper, findings_of([asked]))
    assert found.outcome == "reproduced"
    assert found.evidence[-1] == "Left out: 1 of its 6 trials, which had to share the processors."


@pytest.mark.parametrize(
    ("signs", "expected"),
    [
        ([True, True], "reproduced"),
        ([False, False], "refuted"),
        ([True, False], "mixed"),
        ([True] + [False] * 9, "mixed"),
        ([True, None, None, None, None], "in part"),
        ([False, None], "refuted in part"),
        ([True, False, None], "mixed"),
        ([None, None], "open"),
    ],
)
def test_all_have_to_tell(signs: Sequence[bool | None], expected: str) -> None:
    assert outcome_of(signs) == expected


@pytest.mark.parametrize(
    ("failing", "reason", "expected"),
    [
        ({(WHOLE_FILES, 1)}, JAVA, "reproduced"),
        ({(WHOLE_FILES, 1)}, f"{FULL}: Requested array size exceeds VM limit", "reproduced"),
        ({(WHOLE_FILES, 1)}, f"{FULL}: Java heap space", "open"),
        ({(WHOLE_FILES, 1)}, "ConnectionRefusedError: [Errno 111] Connection refused", "open"),
        (set(), "", "refuted"),
        ({(WHOLE_FILES, 1), (WHOLE_FILES, 32)}, JAVA, "open"),
    ],
)
def test_the_limit_on_blocks(
    tmp_path: Path, failing: set[tuple[str, int]], reason: str, expected: str
) -> None:
    asked = Experiment.of(find(LIMIT).load("quick"), tmp_path)
    attempts = [
        dataclasses.replace(one, state="failed", reason=reason)
        if (one.levels["engine"], one.levels["files"]) in failing
        else one
        for one in record_of(asked, {}, {}).attempts
    ]
    record = Record([], attempts, 0, {one.number: [one] for one in attempts})
    assert outcome(outcomes_of(asked, record), "2 GiB") == expected


def test_small_blocks_say_nothing_of_the_limit(tmp_path: Path) -> None:
    asked = Experiment.of(find(LIMIT).load("smoke"), tmp_path)
    assert outcome(outcomes_of(asked, record_of(asked, {}, {})), "2 GiB") == "not tested"


def test_a_number_that_is_to_grow() -> None:
    low = ("dram", {(1, 0): 1.0, (2, 0): 1.1, (3, 0): 0.9})
    high = ("isilon", {(1, 0): 4.0, (2, 0): 4.1, (3, 0): 3.9})
    assert rising("Share", low, high).outcome == "reproduced"
    assert rising("Share", high, low).outcome == "refuted"
    assert rising("Share", low, low).outcome == "open"
    assert rising("Share", low, None).outcome == "not tested"
    none = ("optane", {(1, 0): 0.0, (2, 0): 0.0, (3, 0): 0.0})
    assert rising("Seconds", none, high).outcome == "reproduced"
    assert rising("Seconds", high, none).outcome == "refuted"
    assert "-4 (-4.25 to -3.75)" in rising("Seconds", high, none).evidence[0]
    assert "1 on dram and 4 on isilon, which is 4.0" in rising("Share", low, high).evidence[0]
    more = ("isilon", {**high[1], (4, 0): 400.0})
    assert rising("Share", low, more) == rising("Share", low, high), "means are of the pairs"


def test_what_was_not_run_is_not_tested(tmp_path: Path) -> None:
    for paper in PAPERS.values():
        found = judged(paper, [])
        assert {one.outcome for _, one in found} <= {"not tested", "held by a test"}
        assert "not tested" in {one.outcome for _, one in found}
        assert all(one.evidence for _, one in found)
        assert {find(spec).name for spec in paper.specs} == set(paper.specs)
    with pytest.raises(UsageError, match=r"no such paper \(did you mean 'storage-tiers'"):
        paper_of("storage-tier")
    done = call("experiment", "verdicts", DASK, "--in", tmp_path)
    assert done.code == 2
    assert "run them first, or say --run" in done.err


def test_emulated_tiers_are_marked(tmp_path: Path) -> None:
    asked = Experiment.of(find(f"{DASK}/staggered-reads").load("quick"), tmp_path)
    finding = Finding(asked, answer_of(asked, record_of(asked, {}, {}, {})))
    page = write_verdicts(tmp_path, PAPERS[DASK], [finding], "nothing").read_text()
    saturated, idle = (
        re.search(rf"\| Spark and Dask {words}[^|]* \|.*", page)
        for words in ("take as long as each other where both wait", "do not take as long")
    )
    assert saturated
    assert saturated[0].endswith("| saturated (20MB/s) |")
    assert idle
    assert "| refuted |" in idle[0]
    assert "20MB/s" not in idle[0], "idle storage is real"
    assert "- Published: 1416 s on Bag" in page
    assert "## Errata of the paper\n\n- The sentence on slopes is about overhead alone" in page
    assert PAPERS["storage-tiers"].errata
    assert "has not been run" in page


def longer(evidence: Evidence) -> Judged:
    return expecting({"slower"}, list(evidence.beside("iterations", 2, 1)))


def test_a_page_of_verdicts_is_made_by_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its experiments are run, or go on, also where a runner was killed before its first line;
    every link on it leads somewhere.
    """
    text = TEXT.replace("replicates = 3", "replicates = 1\nprobe_s = 0") + "\n[scales.laptop]\n"
    small = SpecFile("small", "small.toml", text, tmp_path)
    paper = Paper("page", "Small", "Nobody, 2019", (Claim("Two take longer.", "small", longer),))
    monkeypatch.setattr(command, "find", lambda _: small)
    monkeypatch.setattr(command, "paper_of", lambda _: paper)
    line = ("experiment", "verdicts", "small", "--in", tmp_path, "-o", tmp_path / "pages")
    killed = Experiment.of(small.load("laptop"), tmp_path / "small-laptop")
    killed.directory.root.mkdir()
    killed.directory.begin(killed.loaded)
    done = call(*line, "--run")
    assert done.code == 0
    assert re.search(r"small: 3 trials, about .*\ntime       about .* in all", done.out)
    page = (tmp_path / "pages" / "page.md").read_text()
    where = f"--in {tmp_path} -o {tmp_path / 'pages'}"
    assert f"--scale laptop --run {where}`, of 3 trials." in page
    assert "| Two take longer. | open |" in page
    assert re.search(r"- 20\d\d-\d\d-\d\d\n- Python 3", page)
    assert "Scale `laptop` is smaller" in page
    assert "of memory" in page
    assert "one replicate alone" in page
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert len(links) >= 4
    assert all((tmp_path / "pages" / link).exists() for link in links)
    record = tmp_path / "small-laptop" / "record.jsonl"
    before = record.read_text().count('"attempt"')
    assert call(*line, "--run", "-q").code == 0, "what has run is not run again"
    assert record.read_text().count('"attempt"') == before
    lines = record.read_bytes().splitlines(keepends=True)
    assert b'"attempt"' in lines[3]
    record.write_bytes(b"".join(lines[:3]))
    assert call(*line).code == 0
    assert "of 2 trials that were done, of 3 trials." in (tmp_path / "pages/page.md").read_text()
    trial = killed.trials[2]
    append(record, attempt(3, 1, trial.cell, 1.0, "failed", reason="no"))
    done = call(*line, "--run")
    assert done.code == 1, "as run says it"
    assert "failed     1 trial; the page says which" in done.out
    assert write_verdicts(tmp_path / "none", paper, [], "nothing").exists()
