"""Commands and death: nobody leaves an orphan, a half-written file, or a task that is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from hyperslab.driver.directory import RunDirectory
from tests.repetitions import few
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
SCRIPT = 'sleep {nap} & cp "$0" "$1/one" && wait && mkdir "$1/$2" && mv "$1/one" "$1/$2/out.txt"'


@pytest.fixture
def nap() -> str:
    """Seconds that a command sleeps: no other process of this machine has this word."""
    return f"0.2{os.getpid()}"


def job(tmp_path: Path, nap: str, *more: object) -> tuple[object, ...]:
    folder = tmp_path / "in"
    folder.mkdir(exist_ok=True)
    for number in range(FILES):
        path = folder / f"f{number}.txt"
        if not path.exists():
            path.write_text(f"file {number}\n")
    script = SCRIPT.replace("{nap}", nap)
    template = f"sh -c '{script}' {{input}} {{out}} {{name}}"
    where = (f"{folder}/*.txt", "-o", tmp_path / "out", "--workers", 2)
    return ("run", "--command", template, *where, *more)


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
    done = hyperslab(*job(tmp_path, nap, *more), "--resume")
    assert done.returncode == 0, done.stderr
    assert assert_whole(tmp_path / "out") == FILES
    verified = hyperslab("verify", tmp_path / "out")
    assert verified.stdout == f"{FILES} of {FILES} outputs unchanged since the run\n"
    assert not list((tmp_path / "out" / ".hyperslab").glob("run-*/private"))


def under_way(run: Running, tmp_path: Path, nap: str, tasks: int) -> None:
    await_recorded(run, tmp_path / "out", tasks)
    assert not run.has_ended
    await_that("a command under way", lambda: sleepers(nap) or run.has_ended)


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
    with running(*job(tmp_path, nap, *options)) as run:
        under_way(run, tmp_path, nap, 3)
        run.send(number)
        status, said = run.wait()
    assert status in (-signal.SIGKILL, 130, 143), said
    assert_none_left(nap)
    assert 2 <= assert_whole(tmp_path / "out") < FILES
    assert_resumed(tmp_path, nap, *options)


def test_a_worker_dies(tmp_path: Path, nap: str) -> None:
    """Its command ends, too, and is run once more."""
    with running(*job(tmp_path, nap, "--retries", 2)) as run:
        under_way(run, tmp_path, nap, 2)
        worker = next(
            process for process in psutil.Process(run.process.pid).children() if process.children()
        )
        (spawner,) = worker.children()
        commands = spawner.children(recursive=True)
        worker.kill()
        gone, alive = psutil.wait_procs(commands, timeout=PATIENCE_S)
        assert not alive, (gone, alive)
        status, said = run.wait()
    assert status == 0, said
    assert assert_whole(tmp_path / "out") == FILES
    assert_none_left(nap)


def test_a_run_that_is_cancelled_ends_its_commands(tmp_path: Path) -> None:
    nap = f"1.{os.getpid()}"
    with running(*job(tmp_path, nap, "--engine", "threads")) as run:
        under_way(run, tmp_path, nap, 2)
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


def test_by_way_of_a_fast_tier_nothing_is_lost_either(tmp_path: Path, nap: str) -> None:
    """Nothing is left there."""
    tier = Path("/dev/shm") / f"hyperslab-test-{os.getpid()}"
    tier.mkdir()
    staged = ("--stage-in", tier, "--stage-out", tier)
    try:
        for kills in range(2):
            more = ("--resume",) if kills else ()
            with running(*job(tmp_path, nap, *staged, *more)) as run:
                under_way(run, tmp_path, nap, 2 + 3 * kills)
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
