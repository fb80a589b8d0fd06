"""Commands and death: nobody leaves an orphan, a half-written file, or a task that is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from hyperslab.driver.directory import RunDirectory
from tests.repetitions import few, repeats
from tests.system.faults.command import (
    PATIENCE_S,
    Running,
    await_recorded,
    await_that,
    hyperslab,
    program,
    running,
)
from tests.system.faults.disk import on_a_mount_of_its_own

FILES = 8
ON_THREADS = ("--engine", "threads", "--workers", 2)
"For the end of a run, in which nobody dies any more: workers would take longer to start."
COPY = 'sleep {nap} & cp "$0" "$1/one" && wait && mkdir "$1/$2" && mv "$1/one" "$1/$2/out.txt"'
HOLD = "case $2 in f[67]) while test -e {hold}; do sleep {nap}; done;; esac"
"Two of the files wait: a run cannot end before it is met under way."


@pytest.fixture
def nap() -> str:
    """Seconds that a command sleeps: no other process of this machine has this word, or a part of
    it.
    """
    return f"0.2{os.getpid()}s"


def job(tmp_path: Path, nap: str, *more: object) -> tuple[object, ...]:
    folder = tmp_path / "in"
    folder.mkdir(exist_ok=True)
    for number in range(FILES):
        path = folder / f"f{number}.txt"
        if not path.exists():
            path.write_text(f"file {number}\n")
    script = f"{HOLD}; {COPY}".replace("{nap}", nap).replace("{hold}", str(tmp_path / "hold"))
    template = f"sh -c '{script}' {{input}} {{out}} {{name}}"
    where = (f"{folder}/*.txt", "-o", tmp_path / "out", "--workers", 2)
    return ("run", "--command", template, *where, *more)


@contextmanager
def under_way(tmp_path: Path, nap: str, tasks: int, *more: object) -> Iterator[Running]:
    """A run of which so many tasks are recorded and others are not done, whatever the machine."""
    hold = tmp_path / "hold"
    hold.touch()
    try:
        with running(*job(tmp_path, nap, *more)) as run:
            await_recorded(run, tmp_path / "out", tasks)
            await_that("a command under way", lambda: sleepers(nap))
            assert not run.has_ended
            yield run
    finally:
        hold.unlink(missing_ok=True)


def sleepers(nap: str) -> list[psutil.Process]:
    """Commands under way: their shells, and what these have started."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or ()
        is_ours = "hyperslab" in " ".join(words)
        if not is_ours and any(nap in word for word in words[:3]):
            found.append(process)
    return found


def assert_none_left(nap: str) -> None:
    await_that("the end of commands", lambda: not sleepers(nap))


def assert_whole(out: Path) -> int:
    """What is there is whole; how many there are."""
    found = [path for path in out.glob("*") if path.name != ".hyperslab"]
    for folder in found:
        (file,) = folder.iterdir()
        assert file.name == "out.txt"
        assert file.read_text() == f"file {folder.name[1:]}\n"
    return len(found)


def assert_resumed(tmp_path: Path, nap: str, *more: object) -> None:
    done = hyperslab(*job(tmp_path, nap, *more), "--resume", *ON_THREADS)
    assert done.returncode == 0, done.stderr
    assert assert_whole(tmp_path / "out") == FILES
    verified = hyperslab("verify", tmp_path / "out")
    assert verified.stdout == f"{FILES} of {FILES} outputs unchanged since the run\n"
    assert not list((tmp_path / "out" / ".hyperslab").glob("run-*/private"))


ENDS = (
    ("processes", signal.SIGKILL),
    ("processes", signal.SIGINT),
    ("processes", signal.SIGTERM),
    ("threads", signal.SIGINT),
    ("serial", signal.SIGKILL),
)
PLAYED = (("processes", signal.SIGKILL), ("threads", signal.SIGINT))
"Both kinds of end, of a spawner beside its driver and of one beside a worker."


@pytest.mark.parametrize(("engine", "number"), few(PLAYED, ENDS, "no command outlives its driver"))
def test_the_driver_dies(tmp_path: Path, nap: str, engine: str, number: signal.Signals) -> None:
    options: Sequence[object] = ("--engine", engine)
    if engine == "serial":
        options = (*options, "--workers", 1)
    with under_way(tmp_path, nap, 3, *options) as run:
        run.send(number)
        status, said = run.wait()
    assert status in (-signal.SIGKILL, 130, 143), said
    assert_none_left(nap)
    assert 2 <= assert_whole(tmp_path / "out") < FILES
    assert_resumed(tmp_path, nap, *options)


def test_a_worker_dies(tmp_path: Path, nap: str) -> None:
    """Its command ends, too, and is run once more."""
    with under_way(tmp_path, nap, 2, "--retries", 2) as run:
        worker = next(
            process for process in psutil.Process(run.process.pid).children() if process.children()
        )
        (spawner,) = worker.children()
        commands = spawner.children(recursive=True)
        worker.kill()
        gone, alive = psutil.wait_procs(commands, timeout=PATIENCE_S)
        assert not alive, (gone, alive)
        (tmp_path / "hold").unlink()
        status, said = run.wait()
    assert status == 0, said
    assert assert_whole(tmp_path / "out") == FILES
    assert_none_left(nap)


def test_a_run_that_is_cancelled_ends_its_commands(tmp_path: Path) -> None:
    nap = f"1.{os.getpid()}s"
    with under_way(tmp_path, nap, 2, "--engine", "threads") as run:
        began = time.monotonic()
        RunDirectory(tmp_path / "out").ask_to_cancel()
        status, said = run.wait()
        assert time.monotonic() - began < PATIENCE_S
    assert status == 1, said
    assert_none_left(nap)
    assert_resumed(tmp_path, nap)


def test_a_tier_on_another_mount_of_the_same_device(tmp_path: Path) -> None:
    """As folders of one disk are in a container: it has the number of OUT's device, and yet no file
    can be renamed.
    """
    for name in ("in", "fast"):
        (tmp_path / name).mkdir()
    (tmp_path / "in" / "f0.txt").write_text("file 0\n")
    template = "sh -c 'cp {input} {out}/{name}.out'"
    where = (f"{tmp_path}/in/*.txt", "-o", tmp_path / "out", "--engine", "serial", "--retries", 0)
    done = program(
        *("run", "--command", template, *where, "--stage-out", tmp_path / "fast"),
        inside=on_a_mount_of_its_own(tmp_path / "fast"),
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "f0.out").read_text() == "file 0\n"
    assert list((tmp_path / "fast").iterdir()) == []


@repeats(
    "deaths by way of a tier: test_staging.py; commands: apps/commands/test_command_staging.py"
)
@pytest.mark.parametrize("kills", few([1], [1, 2], "a run that was killed is gone on with"))
def test_by_way_of_a_fast_tier_nothing_is_lost_either(tmp_path: Path, nap: str, kills: int) -> None:
    """Nothing is left there."""
    tier = Path("/dev/shm") / f"hyperslab-test-{os.getpid()}"
    tier.mkdir()
    staged = ("--stage-in", tier, "--stage-out", tier)
    try:
        for kill in range(kills):
            more = ("--resume",) if kill else ()
            with under_way(tmp_path, nap, 2 + 3 * kill, *staged, *more) as run:
                run.send(signal.SIGKILL)
                run.wait()
            assert_none_left(nap)
            assert_whole(tmp_path / "out")
        assert_resumed(tmp_path, nap, *staged)
        assert list(tier.iterdir()) == []
    finally:
        for left in sorted(tier.rglob("*"), reverse=True):
            left.rmdir() if left.is_dir() else left.unlink()
        tier.rmdir()
