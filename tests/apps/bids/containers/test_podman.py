"""A BIDS App in containers of Podman, for real: what it sees, its limits, and nothing left of it,
whoever dies.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from hyperslab.apps.bids.containers import shown
from hyperslab.driver.directory import CLAIMS
from hyperslab.storage.claims import Claims
from tests.apps.bids.containers.podman import IMAGE, Podman
from tests.apps.bids.datasets import make, t1w
from tests.repetitions import few, repeats
from tests.system.clusters.processes import line
from tests.system.end_to_end.command import Finished, call
from tests.system.faults.command import Running, await_that, hyperslab, running


def bids(home: Path, out: Path, level: str, *more: object) -> Finished:
    return call("bids", home, out, level, "--container", IMAGE, "--no-report", *more)


def visible(out: Path) -> list[str]:
    paths = (path.relative_to(out) for path in out.rglob("*") if path.is_file())
    return sorted(str(path) for path in paths if path.parts[0][0] != ".")


def describers(out: Path) -> tuple[str, list[str]]:
    """What a dataset is called, and who has made it."""
    said = json.loads((out / "dataset_description.json").read_text())
    return said["Name"], [one["Name"] for one in said["GeneratedBy"]]


OF_GROUP = ["group.tsv", "report/all.txt"]
RESULTS = ["sub-1/facts.txt", "sub-1/head.txt", "sub-10/facts.txt", "sub-10/head.txt"]


LEVELS = (("processes", "threads 1\n"), ("threads", "threads"))


@pytest.mark.parametrize(("engine", "said"), few(LEVELS[:1], LEVELS, "both levels of an app"))
def test_both_levels(podman: Podman, home: Path, tmp_path: Path, engine: str, said: str) -> None:
    """The app fails if it can write to the dataset, or at the group level to others' results; and
    if its control group lets it use more of a processor than a limit, here a half. That it is made
    to wait cannot be asked for: on a machine that others keep busy it gets less anyway.
    """
    make(home, "busy")
    out = tmp_path / "out"
    fast = ("--engine", engine, "--workers", 2, "--stage-in", "/dev/shm", "--work-tier", "/dev/shm")
    done = bids(home, out, "participant", *fast, "--container-cpus", 0.5)
    assert done.code == 0, done
    assert visible(out) == ["dataset_description.json", *RESULTS]
    assert (out / "sub-10" / "head.txt").read_text() == "head\n"
    assert (out / "sub-10" / "facts.txt").read_text().startswith(said)
    for _ in range(2):  # what a group level has made the next one replaces
        done = bids(home, out, "group")
        assert done.code == 0, done
        assert f"group      2 files in {out}" in done.out
        assert (out / "group.tsv").read_text() == "head\nhead\n"
    assert describers(out) == ("Toy", ["hyperslab", "toybids", "Averages"])
    assert (out / ".bidsignore").read_text().split() == ["group_*", "figures", "*.tsv"]
    assert "6 of 6 outputs unchanged" in call("verify", out).out
    assert podman.containers() == []


def test_some_sessions_and_links(podman: Podman, tmp_path: Path) -> None:
    """An app sees the sessions that are asked for; what it links becomes a file, or is left out."""
    home = tmp_path / "data"
    for session in "abc":
        make(home, t1w("1", session), content=f"{session}\n".encode())
    make(home, "linking")
    out = tmp_path / "out"
    asked = ("--session-label", "a", "--session-label", "c", "--engine", "serial")
    done = bids(home, out, "participant", *asked)
    assert done.code == 0, done
    names = [f"sub-1/{name}.txt" for name in ("again", "facts", "head")]
    assert visible(out) == ["dataset_description.json", *names]
    assert (out / "sub-1" / "again.txt").read_text() == "a\nc\n"
    told = call("logs", out, "sub-1").out
    assert "left out: sub-1/nothing (a link to what is not here), sub-1/programs (a link" in told


def test_each_session_by_itself(podman: Podman, tmp_path: Path) -> None:
    """An app sees one session, and what it writes of the participant is kept of the first."""
    home = tmp_path / "data"
    for session in "ab":
        make(home, t1w("1", session), content=f"{session}\n".encode())
    out = tmp_path / "out"
    done = bids(home, out, "participant", "--per", "session", "--engine", "serial")
    assert done.code == 0, done
    told = "sub-1/head.txt of sub-1_ses-b: it differs from that of sub-1_ses-a, which is kept"
    assert f"not kept   {told}" in done.err
    assert (out / "sub-1" / "head.txt").read_text() == "a\n"
    assert "2 of 2 outputs unchanged" in call("verify", out).out


def test_many_results(
    podman: Podman, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As links, which the app reads, and by which it cannot write."""
    monkeypatch.setattr(shown, "MOST_NBYTES", 0)
    out = tmp_path / "out"
    assert bids(home, out, "participant", "--engine", "threads").code == 0
    for _ in range(2):
        done = bids(home, out, "group")
        assert done.code == 0, done
        assert (out / "group.tsv").read_text() == "head\nhead\n"
        assert visible(out) == ["dataset_description.json", *OF_GROUP, *RESULTS]
    assert "6 of 6 outputs unchanged" in call("verify", out).out


def test_both_levels_in_one_run(podman: Podman, home: Path, tmp_path: Path) -> None:
    """What a group level has made is no result of a participant when the next one begins."""
    out = tmp_path / "out"
    done = bids(home, out, "both", "--engine", "threads")
    assert done.code == 0, done
    assert visible(out) == ["dataset_description.json", *OF_GROUP, *RESULTS]
    assert (out / "group.tsv").read_text() == "head\nhead\n"
    make(home, t1w("1"), content=b"another\n")
    done = bids(home, out, "both", "--engine", "threads", "--resume")
    assert done.code == 0, done
    assert (out / "group.tsv").read_text() == "another\nhead\n"
    assert describers(out) == ("Toy", ["hyperslab", "toybids", "Averages"])
    assert "6 of 6 outputs unchanged" in call("verify", out).out
    make(home, t1w("1"), content=b"a third\n")
    make(home, "failing")
    failed = bids(home, out, "both", "--engine", "threads", "--resume", "--retries", 0)
    assert failed.code == 1, failed
    assert "no group today" in failed.err
    assert podman.containers() == []


def test_a_group_level_that_ends_badly(podman: Podman, home: Path, tmp_path: Path) -> None:
    """What was there stays, and nothing else is there."""
    out = tmp_path / "out"
    assert bids(home, out, "participant", "--engine", "threads").code == 0
    assert bids(home, out, "group").code == 0
    make(home, "failing")
    failed = bids(home, out, "group")
    assert failed.code == 1
    assert "exit status 4: no group today" in failed.err
    make(home, "asleep", content=f"4{os.getpid()}".encode())
    with running("bids", home, out, "group", "--container", IMAGE) as run:
        await_that("a container", lambda: asleep(home) or run.has_ended)
        run.send(signal.SIGKILL)
        run.wait()
    await_that("the end of containers", lambda: not podman.containers() and not asleep(home))
    assert (out / "group.tsv").read_text() == "head\nhead\n"
    assert visible(out) == ["dataset_description.json", *OF_GROUP, *RESULTS]


def test_a_container_that_needs_too_much_memory(
    podman: Podman, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Podman's file `oom` is not left where the user is."""
    make(home, "hungry")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    limits = ("--container-memory", "100MB", "--participant-label", 1, "--retries", 0)
    done = bids(home, tmp_path / "out", "participant", "--engine", "serial", *limits)
    assert done.code == 1, done
    assert "out of memory: the kernel has killed it" in done.err
    assert podman.containers() == []
    assert visible(tmp_path / "here") == []


def test_images_that_are_not_here_or_no_apps(podman: Podman, home: Path, tmp_path: Path) -> None:
    for image, sentence in {
        "localhost/none:1": "podman has no such image: type 'podman pull localhost/none:1'",
        "localhost/noapp:1": "is no BIDS App: it has no entrypoint",
    }.items():
        line = ("bids", home, tmp_path / "out", "participant", "--runtime", "podman")
        done = call(*line, "--container", image)
        assert done.code == 2, done
        assert sentence in done.err
    assert not (tmp_path / "out").exists()


def asleep(home: Path) -> list[psutil.Process]:
    """Processes of containers under way."""
    seconds = (home / "asleep").read_text()
    found = psutil.process_iter(["cmdline"])
    return [one for one in found if one.info["cmdline"] == ["sleep", seconds]]


def line_of(home: Path, out: Path, *more: object) -> tuple[object, ...]:
    engine = ("--engine", "processes", "--workers", 2, "--no-report")
    return ("bids", home, out, "participant", "--container", IMAGE, *engine, *more)


def under_way(run: Running, home: Path) -> None:
    await_that("two containers", lambda: len(asleep(home)) == 2 or run.has_ended)
    assert not run.has_ended, run.wait()


SIGNALS = [signal.SIGKILL, signal.SIGINT]


@pytest.mark.parametrize("number", few([signal.SIGKILL], SIGNALS, "no container outlives its run"))
def test_the_driver_dies(
    podman: Podman, home: Path, tmp_path: Path, number: signal.Signals
) -> None:
    make(home, "asleep", content=f"1{os.getpid()}".encode())
    with running(*line_of(home, tmp_path / "out")) as run:
        under_way(run, home)
        assert len(podman.containers()) == 2
        run.send(number)
        status, said = run.wait()
    assert status in (-signal.SIGKILL, 130), said
    await_that("the end of containers", lambda: not podman.containers() and not asleep(home))
    assert visible(tmp_path / "out") == []


def test_all_that_might_remove_a_container_is_killed(
    podman: Podman, home: Path, tmp_path: Path
) -> None:
    """What is left then goes when the run is resumed, also while others work there."""
    make(home, "asleep", content=f"2{os.getpid()}".encode())
    out = tmp_path / "out"
    with running(*line_of(home, out)) as run:
        under_way(run, home)
        driver = psutil.Process(run.process.pid)
        programs = (sys.executable, "podman")
        below = driver.children(recursive=True)
        doomed = [one for one in below if line(one).split(" ")[0] in programs]
        for one in (driver, *doomed):
            one.suspend()
        for one in (driver, *doomed):
            one.kill()
        run.wait()
    assert len(podman.containers()) == 2
    (home / "asleep").unlink()
    with closing(Claims(out / ".hyperslab" / CLAIMS)) as others:
        assert others.take("sub-9")
        done = hyperslab(*line_of(home, out, "--resume"))
    assert done.returncode == 0, done
    assert visible(out) == ["dataset_description.json", *RESULTS]
    assert podman.containers() == []


@repeats("no container outlives its driver: of each level, above")
def test_the_driver_of_both_levels_dies(podman: Podman, home: Path, tmp_path: Path) -> None:
    """The container of the group level ends with it."""
    out = tmp_path / "out"
    assert bids(home, out, "participant", "--engine", "threads").code == 0
    make(home, "asleep", content=f"5{os.getpid()}".encode())
    line = ("bids", home, out, "both", "--container", IMAGE, "--resume", "--no-report")
    with running(*line, "--engine", "processes", "--workers", 1) as run:
        await_that("a container", lambda: asleep(home) or run.has_ended)
        assert len(podman.containers()) == 1
        run.send(signal.SIGKILL)
        run.wait()
    await_that("the end of containers", lambda: not podman.containers() and not asleep(home))
    assert visible(out) == ["dataset_description.json", *RESULTS]


def test_a_spawner_is_killed(podman: Podman, home: Path, tmp_path: Path) -> None:
    """Its worker removes the container, and the task fails."""
    make(home, "asleep", content=f"3{os.getpid()}".encode())
    with running(*line_of(home, tmp_path / "out", "--retries", 0, "--keep-going")) as run:
        under_way(run, home)
        for client in _clients(run):
            client.parent().kill()
        status, said = run.wait()
    assert status == 1, said
    assert "the process that runs it was killed" in said
    assert podman.containers() == []
    assert asleep(home) == []


def _clients(run: Running) -> list[psutil.Process]:
    """The processes of podman that wait for containers."""
    below = psutil.Process(run.process.pid).children(recursive=True)
    return [one for one in below if line(one).startswith("podman run ")]
