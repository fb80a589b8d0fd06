"""What commands have made when their driver is killed is taken by the next one, unless it is not as
it was written.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.sweeping import sweep
from hyperslab.plan.command import PRIVATE
from tests.apps.bids.datasets import make, t1w
from tests.system.end_to_end.command import Finished, call

KILLED = """
import os, signal
from hyperslab.cli import main
from hyperslab.driver.publishing import Publishing

Publishing.deliver = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main()
"""
"The command, whose driver is killed when it is about to name something."
SERIAL = ("--engine", "serial", "--no-report")


def killed(*words: object) -> None:
    line = [sys.executable, "-c", KILLED, *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """A file to which commands write that they have run."""
    return tmp_path / "ran"


def run_of(tmp_path: Path, ran: Path) -> tuple[object, ...]:
    """A run over three files, of whose commands all but the first wait until that has once run."""
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text(name)
    wait = f"test {{name}} = a || until test -e {tmp_path}/go; do sleep 0.02; done"
    does = f"echo {{name}} >> {ran}; echo said {{name}}; cp {{input}} {{out}}/{{name}}.copy"
    files = sorted(map(str, tmp_path.glob("*.txt")))
    return ("run", "--command", f"sh -c '{wait}; {does}'", *files, "-o", tmp_path / "out", *SERIAL)


def resumed(out: Path, *words: object) -> Finished:
    done = call(*words, "--resume")
    assert done.code == 0, done
    assert not any(out.glob(f".hyperslab/run-*/{PRIVATE}"))
    return done


def test_what_has_no_name_yet_is_taken(tmp_path: Path, ran: Path) -> None:
    """It is made once, and its log is found."""
    out = tmp_path / "out"
    words = run_of(tmp_path, ran)
    killed(*words)
    assert not any(out.glob("*.copy"))
    (tmp_path / "go").touch()
    resumed(out, *words)
    assert ran.read_text() == "a\nb\nc\n"
    assert [(out / f"{name}.copy").read_text() for name in "abc"] == ["a", "b", "c"]
    assert call("logs", out, "a").out.splitlines().count("said a") == 1
    assert "3 of 3 outputs unchanged" in call("verify", out).out


def test_what_is_not_as_it_was_written_is_made_again(tmp_path: Path, ran: Path) -> None:
    out = tmp_path / "out"
    words = run_of(tmp_path, ran)
    killed(*words)
    (made,) = out.glob(f".hyperslab/run-*/{PRIVATE}/*/a.copy")
    made.write_text("?")
    (tmp_path / "go").touch()
    resumed(out, *words)
    assert sorted(ran.read_text().split()) == ["a", "a", "b", "c"]
    assert (out / "a.copy").read_text() == "a"


def test_what_a_killed_call_has_made_is_taken(tmp_path: Path, ran: Path) -> None:
    """By one that is asked for it, and by no other."""
    home, out = make(tmp_path / "data", t1w("1"), t1w("2")), tmp_path / "out"
    app = f"sh -c 'echo {{prefix}} >> {ran}; cp {{t1w}} {{out}}/{{prefix}}_copy.nii.gz'"
    line = ("bids", home, out, "participant", "--app", app, *SERIAL, "--participant-label")
    killed(*line, "1")
    resumed(out, *line, "1")
    assert ran.read_text() == "sub-1\n"
    killed(*line, "2", "--resume")
    resumed(out, *line, "1")
    resumed(out, *line, "2")
    assert ran.read_text() == "sub-1\nsub-2\nsub-2\n"


def test_a_group_level_leaves_what_a_killed_call_has_made(tmp_path: Path, ran: Path) -> None:
    """It is there for the next call that is asked for it."""
    home, out = make(tmp_path / "data", t1w("1"), t1w("2")), tmp_path / "out"
    app = f"sh -c 'echo {{prefix}} >> {ran}; cp {{t1w}} {{out}}/{{prefix}}_copy.nii.gz'"
    line = ("bids", home, out, "participant", "--app", app, *SERIAL, "--participant-label")
    resumed(out, *line, "1")
    killed(*line, "2", "--resume")
    gather = ("--group-app", "sh -c 'ls {results} > {out}/names'", "--allow-missing")
    group = call("bids", home, out, "group", "--app", app, *gather, *SERIAL)
    assert group.code == 0, group
    resumed(out, *line, "2")
    assert ran.read_text() == "sub-1\nsub-2\n"


def test_a_group_level_removes_what_a_killed_one_has_made(tmp_path: Path, ran: Path) -> None:
    """As it is made anew."""
    home, out = make(tmp_path / "data", t1w("1")), tmp_path / "out"
    line = ("bids", home, out, "participant", "--app", "cp {t1w} {out}/{prefix}_x.nii.gz", *SERIAL)
    assert call(*line).code == 0
    gather = ("--group-app", f"sh -c 'echo all >> {ran}; ls {{results}} > {{out}}/names'")
    group = ("bids", home, out, "group", "--app", "cp", *gather, *SERIAL)
    killed(*group)
    assert any(out.glob(f".hyperslab/run-*/{PRIVATE}/*"))
    done = call(*group)
    assert done.code == 0, done
    assert not any(out.glob(f".hyperslab/run-*/{PRIVATE}"))
    assert ran.read_text() == "all\nall\n"


def test_a_call_removes_what_is_in_its_hands_alone(tmp_path: Path) -> None:
    """Another one may be taking over the rest of the same submission."""
    folder = tmp_path / "out" / ".hyperslab" / "run-0001"
    directory = RunDirectory(tmp_path / "out", call="run-0002", before=(folder,))
    private = folder / PRIVATE
    for name in ("0.0.out", "0.1.out", "1.0.out"):
        (private / name).mkdir(parents=True)
    (private / "0123456789abcdef").touch()
    sweep(directory, [private / "0.1.out"], {folder: {0: 0}})
    assert sorted(path.name for path in private.iterdir()) == ["0.1.out", "1.0.out"]
    sweep(directory, [], {folder: {0: 0, 1: ~1}})
    assert not private.exists()
