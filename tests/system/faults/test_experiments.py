"""Experiments whose runner or trials meet with something: what is recorded is whole, and resume
does the rest, once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from hyperslab.apps.experiment.design.cells import trials_of
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.trials.record import Attempt, Record, load
from hyperslab.errors import UsageError
from hyperslab.report.summary import Summary
from hyperslab.storage.emulation import program as emulating
from hyperslab.storage.emulation import registry
from hyperslab.storage.emulation.removing import remove
from hyperslab.storage.mounts import mounts
from tests.campaign import shim
from tests.campaign.shim import Rule
from tests.repetitions import few
from tests.system.clusters.required import required
from tests.system.faults.command import await_that, command, hyperslab, program, running
from tests.system.faults.disk import small_disk

TRIALS = 4
"Trials of two cells in two replicates."
FILES = 2
"Files of their source."
AGES_MS = 10**6
"Longer than a test takes."

SPEC = """\
title = "Short"
workload = "{workload}"
replicates = {replicates}
warm_up = {warm_up}
trial_limit_s = {limit_s}
probe_s = 0

[source]
synth = "bigbrain"
size = "{size}"
files = {files}

[baseline]
engine = "{engine}"
delay = 0.0

[vary]
delay = {delays}

[starved]
others = 1.0
stolen = 1.0
repeats = 0
"""


def _spec(
    folder: Path,
    workload: str = "increment",
    replicates: int = 1,
    limit_s: float = 60.0,
    delays: Sequence[float] = (0.01,),
    size: str = "32KiB",
    engine: str = "serial",
    files: int = 1,
    warm_up: int = 0,
) -> Path:
    path = folder / "short.toml"
    text = SPEC.format(
        workload=workload,
        replicates=replicates,
        limit_s=limit_s,
        delays=list(delays),
        size=size,
        engine=engine,
        files=files,
        warm_up=warm_up,
    )
    path.write_text(text)
    return path


def _record(out: Path) -> Record:
    return load(out / "record.jsonl")


def _told(text: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(text)
    return found


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment at which a runner is killed: at a call on a file of the experiment."""

    place: str
    "File or folder, from that of the experiment on."
    rule: Rule
    "Call that kills, or that waits while the runner is killed from outside."


def _while_it_begins(chance: random.Random, number: int) -> Moment:
    return Moment("experiment.json", Rule("rename", 1, 1, "kill"))


def _between_trials(chance: random.Random, number: int) -> Moment:
    """After a line of the record, or before it; the first line of every runner is its session."""
    call = 2 + chance.randint(0, 1)
    rules = (Rule("fsync", call, 1, "killafter"), Rule("write", call, 1, "kill"))
    return Moment("record.jsonl", chance.choice(rules))


def _while_a_trial_runs(chance: random.Random, number: int) -> Moment:
    """At its first call on a file of its run, where it stays."""
    place = f"{_folder(chance, number)}/out/.hyperslab"
    kind = chance.choice(("create", "mkdir"))
    return Moment(place, Rule(kind, 1, 1, "sleep", number=AGES_MS))


def _while_its_records_are_renamed(chance: random.Random, number: int) -> Moment:
    name = chance.choice(("summary.json", "provenance.json", "plan.json", "status.json"))
    return Moment(f"{_folder(chance, number)}/{name}", Rule("rename", 1, 1, "kill"))


def _while_sources_are_removed(chance: random.Random, number: int) -> Moment:
    return Moment("inputs", Rule("unlink", 2, 1, "kill"))


def _while_the_page_is_written(chance: random.Random, number: int) -> Moment:
    folders = ("", f"trials/{chance.randint(1, TRIALS):04d}-1/")
    return Moment(f"{chance.choice(folders)}report.html", Rule("rename", 1, 1, "kill"))


def _folder(chance: random.Random, number: int) -> str:
    """Folder of the next trial, whose number is given, or of the one after it."""
    return f"trials/{number + chance.randint(0, 1):04d}-1"


def _kill(moment: Moment, line: Sequence[object], out: Path, library: Path, notes: Path) -> None:
    """Run a command until it is killed."""
    variables = shim.environment(library, out / moment.place, notes, moment.rule)
    if moment.rule.deed == "sleep":
        _kill_from_outside(line, variables, notes)
        return
    killed = program(*line, environment={**os.environ, **variables})
    assert killed.returncode == -signal.SIGKILL, (moment, killed.stderr)
    assert shim.hits(notes) == 1


def _kill_from_outside(line: Sequence[object], variables: Mapping[str, str], notes: Path) -> None:
    with running(*line, environment=variables) as runner:
        await_that("a trial that stays where it is", lambda: shim.hits(notes) or runner.has_ended)
        runner.send(signal.SIGKILL)
        code, said = runner.wait()
    assert code == -signal.SIGKILL, said


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    required(shim.missing())
    return shim.compiled(tmp_path_factory.mktemp("shim"))


BOTH = ["serial", "processes"]


@pytest.mark.parametrize("engine", few(BOTH[:1], BOTH, "a runner loses the trial under way"))
def test_runners_that_are_killed_lose_the_trial_under_way(
    tmp_path: Path, library: Path, engine: str
) -> None:
    """Six runners of one experiment die one after the other, at moments drawn from a seed."""
    spec = _spec(tmp_path, replicates=2, engine=engine, files=FILES)
    out = tmp_path / "out"
    chance = random.Random(f"18 {engine}")
    amid = [_between_trials, _while_a_trial_runs, _while_its_records_are_renamed]
    chance.shuffle(amid)
    recorded: list[Attempt] = []
    moments = (_while_it_begins, *amid, _while_sources_are_removed, _while_the_page_is_written)
    for number, drawn in enumerate(moments):
        verb = "resume" if (out / "experiment.json").exists() else "run"
        moment = drawn(chance, len(recorded) + 1)
        line = ("experiment", verb, spec, "--out", out)
        _kill(moment, line, out, library, tmp_path / f"notes{number}")
        record = _record(out)
        assert record.damaged == 0
        assert list(record.attempts[: len(recorded)]) == recorded, moment
        recorded = list(record.attempts)
        assert _whole(out), moment
    assert len(recorded) == TRIALS
    done = hyperslab("experiment", "resume", spec, "--out", out)
    assert done.returncode == 0, done.stderr
    _require_all_trials(spec, out)
    assert list(_record(out).attempts) == recorded
    assert (out / "report.html").exists()
    assert not list(out.rglob("*.nii"))
    assert not list(out.rglob(".*.partial")), "what runners have left of pages"


TIER = """
[tiers.slow]
emulate = "throttled"
bandwidth = "50MB"
"""
"A tier that is made for the trials."


def _missing_emulation() -> str:
    """Why no tier can be emulated here."""
    try:
        emulating.require_fuse()
        emulating.PROGRAM.find()
    except UsageError as why:
        return str(why)
    return ""


def _mounted(out: Path) -> list[str]:
    return [one.mount_point for one in mounts() if one.mount_point.startswith(f"{out}/")]


def _tiers(out: Path) -> list[registry.Emulation]:
    return [one for one in registry.known() if one.directory.startswith(f"{out}/")]


@pytest.fixture
def swept(tmp_path: Path) -> Iterator[Path]:
    """Folder in which no tier stays, also where a test fails."""
    yield tmp_path
    for tier in _tiers(tmp_path):
        remove(tier, by_force=True)


def test_runners_that_are_killed_leave_no_tier_and_no_trial_to_repeat(swept: Path) -> None:
    """The tier of the first one ends with it. The program of the second one's tier dies as well, so
    that it stays mounted until the next runner comes. Places are probed, and a trial is warmed up.
    """
    required(_missing_emulation())
    path = _spec(swept, replicates=2, warm_up=1)
    text = path.read_text().replace("probe_s = 0\n", "probe_s = 0.5\n")
    path.write_text(text.replace("delay = 0.0\n", 'delay = 0.0\ntier = "slow"\n') + TIER)
    out = swept / "out"
    _kill_with_its_tier(path, out, recorded=2, tier_too=False)
    await_that("the end of a tier without a runner", lambda: not _mounted(out))
    before = list(_record(out).attempts)
    _kill_with_its_tier(path, out, recorded=len(before) + 1, tier_too=True)
    assert _mounted(out), "nobody is left who takes it away"
    done = hyperslab("experiment", "resume", path, "--out", out)
    assert done.returncode == 0, done.stderr
    assert _mounted(out) == []
    assert _tiers(out) == []
    record = _record(out)
    assert list(record.attempts[: len(before)]) == before
    assert {one.state for one in record.attempts} == {"done"}
    numbers = [(one.number, one.attempt) for one in record.attempts]
    assert numbers == [(0, 1), *((number, 1) for number in range(1, TRIALS + 1))]
    assert not list(out.rglob("*.nii"))


def _kill_with_its_tier(spec: Path, out: Path, recorded: int, tier_too: bool) -> None:
    """Have a runner go on until so many attempts are recorded, and kill it in the next one."""
    verb = "resume" if (out / "experiment.json").exists() else "run"
    with running("experiment", verb, spec, "--out", out) as runner:
        await_that(
            "trials on a tier",
            lambda: len(_record(out).attempts) >= recorded or runner.has_ended,
        )
        runner.send(signal.SIGSTOP)
        (tier,) = _tiers(out)
        assert tier.pid is not None
        if tier_too:
            os.kill(tier.pid, signal.SIGKILL)
        runner.send(signal.SIGKILL)
        code, said = runner.wait()
    assert code == -signal.SIGKILL, said


def _whole(out: Path) -> bool:
    """Whether a source that has its name has all of its files."""
    sources = [one for one in out.glob("inputs/*") if not one.name.startswith(".")]
    return all(len(list(one.glob("*.nii"))) == FILES for one in sources)


def _require_all_trials(spec: Path, out: Path) -> None:
    """Every trial was done once, with its records, by sessions that are counted."""
    trials = trials_of(find(str(spec)).load(None).spec)
    record = _record(out)
    told = [(one.number, one.replicate, one.key, one.attempt) for one in record.attempts]
    assert told == [(one.number, one.replicate, one.cell.key, 1) for one in trials]
    assert {one.state for one in record.attempts} == {"done"}
    numbers = [session.number for session in record.sessions]
    assert numbers == list(range(1, len(numbers) + 1))
    for one in trials:
        folder = out / "trials" / f"{one.number:04d}-1"
        assert (folder / "trace.parquet").exists()
        assert Summary.load(folder / "summary.json").tasks >= FILES


STUBBORN = (
    "import os, pathlib, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    " pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(200)"
)
"Process that does not end when it is asked to."


def test_trials_that_hang_or_fail_stay_with_their_reason(tmp_path: Path) -> None:
    """A trial waits beyond its limit for a process that ignores SIGTERM, and that ends with it;
    another one fails; a changed spec is refused, and so is a second runner.
    """
    stubborn = tmp_path / "stubborn"
    (tmp_path / "mine.py").write_text(
        "import subprocess, sys\n\ndef work(block, delay=0.0):\n    if delay == 2.0:\n"
        "        raise ValueError('two is too much')\n    if delay:\n"
        f"        line = [sys.executable, '-c', {STUBBORN!r}, {str(stubborn)!r}]\n"
        "        subprocess.Popen(line).wait()\n"
        "    return block\n"
    )
    spec = _spec(tmp_path, "mine.py:work", limit_s=20.0, delays=(2.0, 200.0))
    out = tmp_path / "out"
    line = command("experiment", "run", spec, "--out", out, "--json")
    runner = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    await_that("a session", lambda: _record(out).sessions)
    second = hyperslab("experiment", "resume", spec, "--out", out)
    assert second.returncode == 2
    assert f"is in use by pid {runner.pid}" in second.stderr
    text, _ = runner.communicate()
    assert runner.returncode == 1
    by_delay = {attempt.levels["delay"]: attempt for attempt in _record(out).attempts}
    assert by_delay[0.0].state == "done"
    assert by_delay[200.0].state == "too long"
    assert by_delay[200.0].wall_s < 200
    assert not psutil.pid_exists(int(stubborn.read_text()))
    assert by_delay[2.0].state == "failed"
    assert "two is too much" in by_delay[2.0].reason
    assert "two is too much" in " ".join(map(str, [_told(text)["certainty"]]))
    spec.write_text(spec.read_text().replace("trial_limit_s = 20.0", "trial_limit_s = 30.0"))
    changed = hyperslab("experiment", "resume", spec, "--out", out)
    assert changed.returncode == 2
    assert "trial_limit_s: 30.0, was 20.0" in changed.stderr


def test_half_a_line_is_a_trial_that_is_run_again(tmp_path: Path) -> None:
    """And a warm-up is not, which is no trial; further replicates may be asked for."""
    spec = _spec(tmp_path, warm_up=1)
    out = tmp_path / "out"
    one = (spec, "--out", out, "--only", "delay=0.0")
    first = hyperslab("experiment", "run", *one)
    assert first.returncode == 0, first.stderr
    assert "warm-ups   1, before the first trial of each engine" in first.stdout
    path = out / "record.jsonl"
    path.write_bytes(path.read_bytes()[:-100])
    lost = _record(out)
    assert lost.damaged == 1
    done = hyperslab("experiment", "resume", *one, "--replicates", 2)
    assert done.returncode == 0, done.stderr
    numbers = [attempt.number for attempt in _record(out).attempts]
    assert len(numbers) == len(set(numbers)) == 3
    assert "warm-ups" not in done.stdout
    assert "Damaged in the record: 1 line" in done.stdout
    page = (out / "report.html").read_text()
    assert "Not counted: 1 warm-up before the first trial" in page
    assert "<td>warm-up 1</td>" in page


def test_a_disk_that_is_full_loses_nothing(tmp_path: Path) -> None:
    """What cannot fit is refused before anything begins; a trial that fills the disk has failed,
    and is run again where that is asked for.
    """
    with small_disk(tmp_path / "disk", 6 * 2**20) as disk:
        out = disk.path / "out"
        spec = _spec(tmp_path, size="8MiB")
        refused = program("experiment", "run", spec, "--out", out, inside=disk.inside)
        assert refused.returncode == 2
        assert "the experiment needs" in refused.stderr
        (tmp_path / "mine.py").write_text(
            "import os\n\ndef fill(block, delay=0.0):\n"
            f"    if block.size > 10_000 and not os.path.exists({str(tmp_path / 'enough')!r}):\n"
            f"        open({str(disk.path / 'filler')!r}, 'ab').write(bytes(2**24))\n"
            "    return block\n"
        )
        spec = _spec(tmp_path, "mine.py:fill", size="1MiB")
        one = (spec, "--out", out, "--only", "delay=0.0")
        full = program("experiment", "run", *one, inside=disk.inside)
        failed = _record(disk.seen / "out").attempts
        assert [one.state for one in failed] == ["failed"], full.stderr
        assert "space" in failed[0].reason
        assert full.returncode == 1
        (disk.seen / "filler").unlink()
        (tmp_path / "enough").touch()
        going = ("experiment", "resume", *one)
        as_it_was = program(*going, inside=disk.inside)
        assert as_it_was.returncode == 1
        assert list(_record(disk.seen / "out").attempts) == list(failed)
        done = program(*going, "--retry-failed", inside=disk.inside)
        assert done.returncode == 0, done.stderr
        assert [one.state for one in _record(disk.seen / "out").attempts] == ["failed", "done"]
