"""Small real runs, drawn at random, whose terminal, page, JSON, plan and advice are held against
one another: `python -m tests.system.end_to_end.drawn_runs --number 300 --seed 7`.

Each is drawn from its seed and its number alone. A run that is to be judged lasts a second and
more, most of which it sleeps.
"""

from __future__ import annotations

import argparse
import html
import json
import random
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hyperslab.driver.submission import load_records
from hyperslab.report.measures import headline, numbers
from hyperslab.report.verdict import judge
from hyperslab.report.verdict.finding import SHORT_S
from hyperslab.units import show_seconds
from tests.report.contradictions import assert_sound
from tests.system.end_to_end.command import Finished, call, save

FUNCTIONS = """
import time

import numpy as np

import hyperslab


def sleeping(block, seconds=0.0):
    time.sleep(seconds)
    return block


def uneven(block, slab, seconds=0.0):
    time.sleep(seconds / 2)
    if not any(slab.start):
        time.sleep(3 * seconds)
    return block


def looping(block, seconds=0.0):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(200))
    return block


def flat(block, seconds=0.0):
    time.sleep(seconds)
    return block.mean(axis=-1)


def within(block, mask, seconds=0.0):
    time.sleep(seconds)
    return np.where(mask > 0, block, 0)


def lift(block, seconds=0.0):
    time.sleep(seconds)
    return int((block > 3).sum())


above = hyperslab.Fold(lift=lift, merge=lambda a, b: a + b)
"""
TIMED = ("sleeping", "uneven", "looping", "flat", "above")
BUILT_IN = ("increment", "stats", "histogram", "smooth", "downsample")
ENGINES = ("serial", "threads", "threads", "threads", "processes")
JUDGED_S = 1.15
"How long the tasks of a run last that is to be judged."


@dataclass
class Drawn:
    """A run that somebody may ask for."""

    function: str
    sources: list[str]
    flags: dict[str, list[str]]
    "The words of each flag, by the flag."
    wanted_s: float
    "How long its tasks are to last together, over the slots; 0: as short as they are."

    def words(self, out: str, **instead: str) -> list[str]:
        """The arguments of the command, with some flags changed."""
        flags = dict(self.flags)
        for name, value in instead.items():
            flags[f"--{name.replace('_', '-')}"] = [value]
        if "blocks" in instead:
            flags = {name: words for name, words in flags.items() if name not in _OTHER_CUTS}
        said = [word for name, words in flags.items() for word in (name, *words)]
        return ["run", self.function, *self.sources, "-o", out, *said]


_OTHER_CUTS = ("--block-shape", "--partition")


def draw(seed: int, number: int, is_judged: bool | None = None) -> Drawn:
    """Files in the current directory, and a run over them."""
    draws = random.Random(f"{seed}/{number}")
    shape = tuple(draws.choice([1, 2, 5, 12, 20, 31]) for _ in range(draws.choice([2, 3, 3, 4])))
    sources = _sources(draws, shape)
    if is_judged is None:
        is_judged = draws.random() < 0.6
    flags: dict[str, list[str]] = {}
    engine = draws.choice(ENGINES)
    flags["--engine"] = [engine]
    if engine != "serial":
        flags["--threads"] = [str(draws.choice([1, 2, 3]))]
    if engine == "processes":
        flags["--workers"] = [str(draws.choice([1, 2, 3]))]
    flags |= _cut(draws, shape)
    function = f"made.py:{draws.choice(TIMED)}"
    if not is_judged and draws.random() < 0.6:
        function = draws.choice(BUILT_IN)
    if draws.random() < 0.15:
        flags["--memory"] = [draws.choice(["64MB", "1GB"])]
    if draws.random() < 0.2:
        save(Path("mask.nii"), np.ones(shape[:3], np.uint8), np.eye(4))
        function = draws.choice(["made.py:within", "stats", "histogram"])
        if is_judged:
            function = "made.py:within"
        flags["--mask"] = ["mask.nii"]
    if function.rpartition(":")[2] in ("above", "stats", "histogram"):
        return Drawn(function, sources, flags, JUDGED_S if is_judged else 0.0)
    if draws.random() < 0.5:
        flags["--format"] = [draws.choice(["nii", "nii.gz", "h5", "zarr"])]
    if draws.random() < 0.3:
        flags["--keep"] = [draws.choice(["volume", "blocks"])]
    return Drawn(function, sources, flags, JUDGED_S if is_judged else 0.0)


def _sources(draws: random.Random, shape: tuple[int, ...]) -> list[str]:
    """One to three files of a format."""
    values = np.random.default_rng(0).integers(0, 9, shape).astype(draws.choice(["u1", "i2", "f4"]))
    kind = draws.choice(["nii", "nii", "nii.gz", "h5", "chunked"])
    names = []
    for number in range(draws.choice([1, 1, 1, 2, 3])):
        name = f"image_{number}.{kind}" if kind.startswith("nii") else f"image_{number}.h5"
        if kind.startswith("nii"):
            save(Path(name), values, np.eye(4))
        else:
            with h5py.File(name, "w") as file:
                chunks = None
                if kind == "chunked":
                    chunks = tuple(max(1, extent // draws.choice([1, 2, 3])) for extent in shape)
                file.create_dataset("data", data=values, chunks=chunks)
        names.append(name)
    return names


def _cut(draws: random.Random, shape: tuple[int, ...]) -> dict[str, list[str]]:
    match draws.choice(["auto", "auto", "number", "number", "grid", "shape", "slabs", "bytes"]):
        case "number":
            return {"--blocks": [str(draws.choice([1, 2, 3, 4, 7, 16, 60]))]}
        case "grid":
            return {"--blocks": ["x".join(str(draws.randint(1, min(3, n))) for n in shape)]}
        case "shape":
            return {
                "--block-shape": [",".join(str(draws.randint(max(1, n // 3), n)) for n in shape)]
            }
        case "slabs":
            return {"--partition": ["slabs"]}
        case "bytes":
            return {"--partition": [f"bytes={draws.choice([500, 4000, 10**6])}"]}
    return {}


@dataclass
class Found:
    """What is wrong with a run's words."""

    contradictions: list[str] = field(default_factory=list)
    command: str = ""
    refused: str = ""
    "The sentence with which the plan was refused, if it was."
    rules: tuple[str, ...] = ()
    "What the verdict found."

    def expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.contradictions.append(otherwise)


def examine(drawn: Drawn) -> Found:
    """Plan it, run it, report it, and compare."""
    found = Found()
    planned = call(*drawn.words("out"), "--dry-run", "--json")
    found.command = " ".join(["hyperslab", *drawn.words("out")])
    if planned.code:
        found.refused = planned.err.strip()
        found.expect(planned.err.startswith("hyperslab: "), f"no sentence: {planned.err}")
        return found
    plan = json.loads(planned.out)
    if drawn.wanted_s:
        slots = min(plan["tasks_at_a_time"], plan["tasks"])
        drawn.flags["-p"] = [f"seconds={drawn.wanted_s * slots / plan['tasks']:.6f}"]
        found.command = " ".join(["hyperslab", *drawn.words("out")])
    _read_aloud(found, drawn, plan, call(*drawn.words("out"), "--verbose"))
    return found


def _read_aloud(found: Found, drawn: Drawn, plan: dict[str, Any], ran: Finished) -> None:
    found.expect(ran.code == 0, f"the run failed although its plan was sound: {ran.err}")
    if ran.code:
        return
    records = load_records(Path("out"))
    page = _text(Path("out/.hyperslab/run-0001/report.html").read_text(encoding="utf-8"))
    told = json.loads(call("report", "out", "--json").out)
    printed = call("report", "out").out
    summary = records.summary
    verdict = judge(records.trace, summary)
    found.rules = tuple(one.rule for one in verdict.findings)
    try:
        assert_sound(records.trace, summary, verdict)
    except AssertionError:
        found.contradictions.append(traceback.format_exc(limit=-1))
    _compare_plan(found, plan, records, ran.out)
    _compare_words(found, records, verdict, ran.out, printed, page)
    _compare_json(found, told, summary, verdict)
    _follow(found, drawn, plan, verdict)
    _bounds(found, summary, ran.out + page)


def _compare_plan(found: Found, plan: dict[str, Any], records: Any, terminal: str) -> None:
    """What was done is what was announced."""
    summary = records.summary
    found.expect(plan["fits"], "a plan that does not fit was run")
    found.expect(plan["tasks"] == summary.tasks, f"{plan['tasks']} tasks were planned")
    slots = plan["workers"] * plan["threads"]
    found.expect(summary.slots == slots, f"{slots} slots were planned, {summary.slots} there")
    found.expect(
        plan["tasks_at_a_time"] <= slots, f"{plan['tasks_at_a_time']} at a time on {slots}"
    )
    run = records.trace.meta["run"]
    found.expect(run["blocks"] == plan["blocks"], f"{plan['blocks']} blocks were planned")
    found.expect(
        plan["read_nbytes"] == summary.read_nbytes,
        f"{plan['read_nbytes']} bytes to read were planned, {summary.read_nbytes} were read",
    )
    files = re.search(r"^outputs    ([\d,]+) files? in", terminal, re.MULTILINE)
    found.expect(files is not None, "the terminal does not say how many files")
    if files is not None:
        count = int(files[1].replace(",", ""))
        is_fold = not plan["files"]  # which saves its value as it likes
        found.expect(
            is_fold or count == plan["files"], f"{plan['files']} files were planned, {count} made"
        )


def _compare_words(
    found: Found, records: Any, verdict: Any, terminal: str, printed: str, page: str
) -> None:
    """Terminal and page say the same, in the same numbers."""
    summary = records.summary
    for where, text in (("terminal", _one_line(terminal)), ("page", page)):
        found.expect(headline(summary) in text, f"the {where} lacks: {headline(summary)}")
        for part in verdict.told().values():
            found.expect(part in text, f"the {where} lacks: {part}")
    found.expect(verdict.paragraph in printed, "`report` says something else than the run")
    for line in numbers(summary):
        found.expect(line in terminal, f"the terminal lacks: {line}")
        label, _, value = line.strip().partition("  ")
        if "too short" not in value:
            found.expect(f"{label} {value.strip()}" in page, f"the page lacks: {line}")
    for finding in verdict.findings[1:]:
        found.expect(finding.text in page, f"the page lacks: {finding.text}")


def _compare_json(found: Found, told: dict[str, Any], summary: Any, verdict: Any) -> None:
    """The document for programs holds the same numbers and the same words."""
    for name in ("tasks", "slots", "makespan_s", "read_nbytes", "written_nbytes", "idle_s"):
        found.expect(told["summary"][name] == getattr(summary, name), f"JSON: another {name}")
    said = [(one["rule"], one["sentence"], one["advice"]) for one in told["verdict"]]
    judged = [(one.rule, one.sentence, one.advice) for one in verdict.findings]
    found.expect(said == judged, f"JSON: another verdict: {said}")


def _follow(found: Found, drawn: Drawn, plan: dict[str, Any], verdict: Any) -> None:
    """Advice that names numbers is taken by the planner as it stands."""
    text = " ".join(finding.advice for finding in verdict.findings)
    for blocks in re.findall(r"--blocks (\d+)", text):
        then = call(*drawn.words("other", blocks=blocks), "--dry-run", "--json")
        found.expect(then.code == 0, f"--blocks {blocks} was advised and is refused: {then.err}")
        if then.code == 0:
            cut = json.loads(then.out)["blocks"]
            found.expect(cut > plan["blocks"], f"--blocks {blocks} was advised and makes {cut}")
    for workers, threads in re.findall(r"--workers (\d+)(?: --threads (\d+))?", text):
        engine = "processes" if "--engine processes" in text else drawn.flags["--engine"][0]
        changed = {"workers": workers, "engine": engine}
        if threads:
            changed["threads"] = threads
        then = call(*drawn.words("other", **changed), "--dry-run", "--json")
        found.expect(then.code == 0, f"--workers {workers} was advised and is refused: {then.err}")


def _bounds(found: Found, summary: Any, text: str) -> None:
    """What is called too short is shorter than the bound that is named with it."""
    if "too short to tell" in text:
        shortest = min(summary.makespan_s, summary.makespan_without_startup_s)
        found.expect(shortest < SHORT_S, f"{show_seconds(shortest)} is called too short")
    if re.search(r"The run took [\d.]+ m?s, too short", text):
        found.expect(summary.makespan_s < SHORT_S, "the whole run is called too short")


def _text(page: str) -> str:
    """What a page says, on one line, without its scripts."""
    bare = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    bare = re.sub(r"</?(?:abbr|span|b)\b[^>]*>", "", bare)
    return _one_line(html.unescape(re.sub(r"<[^>]*>", " ", bare)))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def examined(seed: int, number: int, is_judged: bool | None = None) -> Found:
    """Draw and examine a run in an empty folder, which is the current directory meanwhile."""
    folder = tempfile.mkdtemp()
    try:
        with chdir(folder):
            # A process keeps what it has imported, by what is in it.
            Path("made.py").write_text(f"# {folder}\n{FUNCTIONS}")
            return examine(draw(seed, number, is_judged))
    finally:
        shutil.rmtree(folder)


def _told(seed: int, asked: range) -> Iterator[Found]:
    for number in asked:
        found = examined(seed, number)
        yield found
        for text in found.contradictions:
            print(f"--seed {seed} --only {number}: {found.command}\n    {text}", flush=True)


def main() -> int:
    """Run what is asked for; 1 where anything contradicts itself."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    asked = parser.parse_args()
    numbers_of = range(asked.first, asked.first + asked.number)
    if asked.only is not None:
        numbers_of = range(asked.only, asked.only + 1)
    every = list(_told(asked.seed, numbers_of))
    rules: dict[str, int] = {}
    for rule in (rule for one in every for rule in one.rules):
        rules[rule] = rules.get(rule, 0) + 1
    refused = [one for one in every if one.refused]
    print(f"{len(every)} runs, {len(refused)} refused; findings: {rules}")
    for one in refused:
        print(f"refused: {one.command}: {one.refused}")
    return int(any(one.contradictions for one in every))


if __name__ == "__main__":
    sys.exit(main())
