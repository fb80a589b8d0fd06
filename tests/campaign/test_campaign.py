"""A round of some scenarios, always the same; and the judges, who must see what is planted."""

from __future__ import annotations

import errno
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.campaign import commands, content, judgement, playing, scenarios, shim, table
from tests.campaign.commands import Ended, begin, judge_manners
from tests.campaign.jobs import Job
from tests.campaign.playing import NOTHING_HIT, Verdict, home_of, undisturbed
from tests.campaign.rounds import Finding, References, Round
from tests.campaign.scenarios import Wish
from tests.campaign.shim import Rule
from tests.repetitions import few
from tests.system.clusters.processes import signal_all
from tests.system.clusters.required import required

SEED = 1
ATTEMPTS = 4
"At a round that is over before what is to befall it, on a machine that is fast or busy."
BLOCKS, VOLUME, PLACED = (
    Job("blocks.nii", "processes"),
    Job("volume.nii", "serial"),
    Job("placed", "threads"),
)
ROUNDS: Mapping[str, tuple[Job, int]] = {
    "deaths": (BLOCKS, 2),
    "calls": (PLACED, 1),
    "disks": (VOLUME, 2),
    "races": (VOLUME, 2),
    "damage": (PLACED, 1),
    "copies": (PLACED, 1),
    "tampering": (VOLUME, 2),
    "stale workers": (Job("held", "processes"), 1),
    "changes": (VOLUME, 3),
    "power": (BLOCKS, 2),
    "terminals": (VOLUME, 2),
}
"A job for every scenario, and the number that decides all else."
PLAYED = ("deaths",)
"""Faults that strike where they were drawn. What the other scenarios do, tests/system/faults does
at chosen moments: test_staging.py, test_convert.py and test_experiments.py (calls), test_disk.py,
test_driver.py (races, tampering), test_damaged_records.py, test_copies.py, test_stale_workers.py,
test_sources.py and test_resume.py (changes), test_lost_pages.py (power); terminals go away in
tests/system/end_to_end/test_listeners.py.
"""
CALLS = """
import ctypes, fcntl, os, sys
out = sys.argv[1]
os.mkdir(f"{out}/new")
fd = os.open(f"{out}/new/a", os.O_RDWR | os.O_CREAT)
os.write(fd, b"0123456789")
os.pwrite(fd, b"0123456789", 0)
os.pwritev(fd, [b"0123456789"], 0)
os.pread(fd, 10, 0)
os.preadv(fd, [bytearray(10)], 0)
os.posix_fallocate(fd, 0, 100)
os.ftruncate(fd, 10)
fcntl.flock(fd, fcntl.LOCK_EX)
os.fsync(fd)
os.fdatasync(fd)
ctypes.CDLL(None).syncfs(fd)
os.close(fd)
os.close(os.open(f"{out}/new/a", os.O_RDONLY))
os.rename(f"{out}/new/a", f"{out}/new/b")
os.link(f"{out}/new/b", f"{out}/new/c")
os.unlink(f"{out}/new/c")
"""
"Every kind of call, some in both of the ways in which this package makes them."


@pytest.fixture(scope="session")
def references(tmp_path_factory: pytest.TempPathFactory) -> References:
    return References(tmp_path_factory.mktemp("references"), undisturbed)


@pytest.fixture
def begun(tmp_path: Path, references: References) -> Iterator[Round]:
    """A round in which nothing has happened yet."""
    with home_of(tmp_path / "round") as home:
        job = Job("blocks.nii", "serial")
        yield Round(SEED, 0, tmp_path / "round", random.Random(0), job, references, home)


@pytest.fixture
def done(begun: Round) -> Round:
    """A round whose run has ended, undisturbed."""
    begun.lay_out()
    judgement.finished(begun)
    return begun


@pytest.mark.parametrize("name", few(PLAYED, ROUNDS, "no fault makes a run wrong or torn"))
def test_a_round(tmp_path: Path, references: References, name: str) -> None:
    required(scenarios.SCENARIOS[name].missing())
    job, number = ROUNDS[name]
    verdicts = [playing.play_job(SEED, 0, tmp_path, references, name, job, random.Random(number))]
    while verdicts[-1].why_not == NOTHING_HIT and len(verdicts) < ATTEMPTS:
        verdicts.append(
            playing.play_job(SEED, 0, tmp_path, references, name, job, random.Random(number))
        )
    required(verdicts[-1].why_not)
    assert verdicts[-1].is_right, table.describe(verdicts[-1], SEED, Wish(name))


def test_every_scenario_is_played_here() -> None:
    assert [*ROUNDS] == [*scenarios.SCENARIOS]


def test_a_round_does_not_depend_on_others() -> None:
    drawn = [scenarios.draw(random.Random(f"1/{index}")) for index in range(200)]
    assert drawn[150] == scenarios.draw(random.Random("1/150"))
    assert {name for name, _ in drawn} == {*scenarios.SCENARIOS}


def test_an_engine_may_be_asked_for() -> None:
    """In those scenarios that it takes part in."""
    drawn = [scenarios.draw(random.Random(index), Wish(engine="slurm")) for index in range(60)]
    assert {name for name, _ in drawn} == {"deaths", "races", "stale workers"}
    assert {job.engine for _, job in drawn} == {"slurm"}
    assert not any(job.is_staged for _, job in drawn), "which its jobs have no part in"


def faults(this: Round) -> set[str]:
    return {finding.fault for finding in this.findings}


def test_a_changed_voxel_is_seen(done: Round) -> None:
    path = max(done.seen.glob("*.nii"))
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    judgement.expect_the_result(done)
    assert [finding.fault for finding in done.findings] == [
        "wrong",
        "wrong",
    ], "the file, and the verdict of verify"
    assert f"{path.name} differs in 1 of {len(raw)} bytes" in done.findings[0].what
    judgement.expect_nothing_torn(done)
    assert faults(done) == {"wrong", "torn"}


def test_a_missing_file_is_no_torn_one() -> None:
    whole = {"a.nii": b"1", "b.nii": b"2"}
    assert content.torn({"b.nii": b"2"}, whole) == []
    assert content.differences({"b.nii": b"2"}, whole) == ["a.nii is missing"]


def test_leftovers_are_seen(done: Round) -> None:
    judgement.expect_the_result(done)
    assert done.findings == []
    (done.seen / ".new.nii.0123.part").touch()
    (done.seen / ".hyperslab" / "status.json.part").touch()
    judgement.expect_the_result(done)
    assert [finding.what for finding in done.findings] == [
        ".hyperslab/status.json.part",
        ".new.nii.0123.part",
    ]
    assert faults(done) == {"left behind"}


def test_an_orphan_is_seen(begun: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "GRACE_S", 0.2)
    begun.home.start("orphan", ["sleep", "100"])
    assert commands.await_that(begun.home.left), "it has its environment a moment after it began"
    commands.expect_no_orphans(begun)
    assert faults(begun) == {"orphaned"}
    assert "sleep 100" in begun.findings[0].what
    assert commands.await_that(lambda: not begun.home.left())


def test_a_hang_is_seen(begun: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "PATIENCE_S", 0.2)
    command = begin(
        begun, "status", str(begun.out), before=("sh", "-c", 'sleep 100; exec "$@"', "sh")
    )
    commands.await_end(begun, command, is_disturbed=True)
    assert faults(begun) == {"hung"}


@pytest.mark.parametrize(
    ("code", "text", "is_fine"),
    [
        (0, "", True),
        (2, "hyperslab: x.nii: no such file", True),
        (1, "", False),
        (7, "hyperslab: x.nii: no such file", False),
        (-11, "", False),
        (1, "Traceback (most recent call last)\n  File", False),
        (1, "hyperslab: KeyError: 'a'; this should not happen: run again with --debug", False),
    ],
)
def test_manners(begun: Round, code: int, text: str, is_fine: bool) -> None:
    judge_manners(begun, ["status"], Ended(code, text))
    assert faults(begun) == (set() if is_fine else {"unhelpful"})


def test_a_torn_store_is_seen() -> None:
    whole = {"a.zarr/zarr.json": b"{}", "a.zarr/c/0": b"1", "b.nii": b"2"}
    assert content.torn({"b.nii": b"2"}, whole) == []
    assert content.torn({"a.zarr/zarr.json": b"{}", "b.nii": b"x"}, whole) == ["a.zarr", "b.nii"]
    assert content.torn({"b.nii": b"x"}, whole, {"b.nii": b"x"}) == []


@pytest.fixture(scope="session")
def library(references: References) -> Path:
    required(shim.missing())
    return references.library()


def make_calls(
    tmp_path: Path, library: Path, rule: Rule | None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Make every kind of call, in another process, with what befalls one of them."""
    out = tmp_path / "out"
    out.mkdir()
    variables = shim.environment(library, out, tmp_path / "notes", rule) | more
    line = [sys.executable, "-c", CALLS, str(out)]
    return subprocess.run(line, env=variables, capture_output=True, text=True, check=False)


def test_the_shim_sees_every_call(tmp_path: Path, library: Path) -> None:
    made = make_calls(tmp_path, library, None)
    assert made.returncode == 0, made.stderr
    twice = {"pwrite", "pread", "fsync"}
    assert shim.counted(tmp_path / "notes") == {kind: 1 + (kind in twice) for kind in shim.KINDS}
    assert shim.hits(tmp_path / "notes") == 0


@pytest.mark.parametrize("kind", [kind for kind in shim.KINDS if kind != "syncfs"])
def test_the_shim_makes_every_call_fail(tmp_path: Path, library: Path, kind: str) -> None:
    made = make_calls(tmp_path, library, Rule(kind, 1, 1, "error", "EIO"))
    assert f"OSError: [Errno {errno.EIO}]" in made.stderr
    assert shim.hits(tmp_path / "notes") == 1


@pytest.mark.parametrize(("deed", "code"), [("kill", -9), ("killafter", -9), ("exit", 9)])
def test_the_shim_ends_a_process(tmp_path: Path, library: Path, deed: str, code: int) -> None:
    made = make_calls(tmp_path, library, Rule("rename", 1, 1, deed, number=9))
    assert made.returncode == code
    assert (tmp_path / "out" / "new" / "b").exists() == (deed == "killafter")


def test_the_shim_knows_what_is_not_on_storage(tmp_path: Path, library: Path) -> None:
    deed = Rule("fsync", 1, 1, "kill")
    assert make_calls(tmp_path, library, deed, SHIM_TRACK="1").returncode == -9
    assert shim.unsynced(tmp_path / "notes") == {(tmp_path / "out" / "new" / "a").stat().st_ino}
    (tmp_path / "synced").mkdir()
    assert make_calls(tmp_path / "synced", library, None, SHIM_TRACK="1").returncode == 0
    assert shim.unsynced(tmp_path / "synced" / "notes") == set()


def test_the_table_says_how_to_play_it_again(tmp_path: Path) -> None:
    right = Verdict(1, "deaths", "sum on serial", ("SIGKILL to driver",), (), 2, 1.0, tmp_path)
    wrong = Verdict(
        2,
        "deaths",
        "sum on serial",
        (),
        (Finding("torn", "a"), Finding("torn", "b")),
        0,
        2.0,
        tmp_path,
    )
    missed = Verdict(3, "deaths", "sum on serial", (), (), 0, 3.0, tmp_path, "nothing was hit")
    head, row, _, injected = table.render([right, wrong, missed]).splitlines()
    assert head.split()[:3] == ["scenario", "rounds", "right"]
    assert row.split() == [
        "deaths",
        "2",
        "1",
        "0",
        "1",
        "0",
        "0",
        "0",
        "0",
        "0",
        "0",
        "2",
        "1",
        "6",
    ]
    assert injected.split() == ["1", "x", "SIGKILL", "to", "driver"]
    assert "-m tests.campaign --seed 5 --only 2\n" in table.describe(wrong, 5, Wish())
    wish = Wish("stale workers", "mpi")
    again = "--only 2 --scenario 'stale workers' --engine mpi\n"
    assert again in table.describe(wrong, 5, wish)
    assert "again" not in table.describe(right, 5, Wish())


def test_all_signals_reach_what_a_round_has_started(begun: Round) -> None:
    """What is left of a round that breaks off is ended with it."""
    begun.home.start("stopped", ["sleep", "100"])
    signal_all(begun.home.left(), 19)
    begun.home.end()
    assert begun.home.left() == []
