"""Scratch of which something stays, or does not answer, keeps nobody from going on, and hides no
other reason.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import hyperslab
from hyperslab.apps.scratch import wish_of
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.scratch import making, program, registry, removing, sizing, ways
from hyperslab.storage.scratch.making import Wish, create
from hyperslab.storage.scratch.program import ScratchFailed
from hyperslab.storage.scratch.registry import DIRECTORY, FUSE, NAMESPACE, Scratch
from hyperslab.storage.scratch.removing import ScratchInUse, ScratchLeft
from tests.storage.emulation.tiers import mounted
from tests.storage.scratch.stage import SIZE, is_gone, made, needs_root
from tests.system.end_to_end.command import call
from tests.system.faults.command import await_that

Make = Callable[[Scratch], Scratch]
Nobody = Callable[..., subprocess.Popen[str]]
DEAD = 2**22
"Number of no process."


def _fails_by(reason: BaseException) -> Make:
    """Making that leaves its directory, and fails."""

    def make(scratch: Scratch) -> Scratch:
        Path(scratch.folder).mkdir()
        raise reason

    return make


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Directories of records cannot be removed."""

    def discard(place: Path) -> None:
        if place.parent == registry.folder() and place.exists():
            raise ScratchLeft(f"{place} remains")

    with monkeypatch.context() as patch:
        patch.setattr(removing, "_discard", discard)
        yield


def _make(monkeypatch: pytest.MonkeyPatch, by: dict[str, Make]) -> None:
    known = {name: ways.Way("one for a test", make) for name, make in by.items()}
    monkeypatch.setattr(making, "WAYS", known)


@pytest.mark.usefixtures("stubborn")
def test_the_next_way_is_taken_where_one_leaves_something(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = ways.WAYS[DIRECTORY].make

    def beside(scratch: Scratch) -> Scratch:
        Path(scratch.folder).mkdir()
        return plain(scratch)

    _make(monkeypatch, {FUSE: _fails_by(ScratchFailed("no fuse")), DIRECTORY: beside})
    made = create(wish_of(storage, SIZE))
    assert (made.way, made.passed_over) == (DIRECTORY, ("fuse: no fuse",))
    assert {one.way for one in registry.recorded()} == {FUSE, DIRECTORY}, "both are written down"


def test_a_block_of_python_is_warned_of_a_plain_directory(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its own line: on a storage where names cost, that is not what was asked for."""
    plain = ways.WAYS[DIRECTORY].make
    _make(monkeypatch, {FUSE: _fails_by(ScratchFailed("no fuse")), DIRECTORY: plain})
    with (
        pytest.warns(UserWarning, match="went to a plain directory: fuse: no fuse") as told,
        hyperslab.scratch(storage, SIZE),
    ):
        pass
    assert [one.filename for one in told] == [__file__]


@pytest.mark.usefixtures("stubborn")
def test_the_reason_is_told_before_what_remains(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make(monkeypatch, {FUSE: _fails_by(OSError("the reason"))})
    with pytest.raises(OSError, match=r"^the reason\n") as caught:
        create(wish_of(storage, SIZE))
    (note,) = caught.value.__notes__
    assert f"on {storage} remains: " in note
    assert note.endswith(" remains")


def test_a_record_that_cannot_be_read_is_told_and_left_alone(storage: Path) -> None:
    dead = Scratch("0123abcd", DIRECTORY, str(storage), SIZE, "none", owner=DEAD, owner_started=1)
    registry.record(dead)
    wrong = {"damaged": "{", "newer": '{"name": "newer", "colour": "red"}', "other": "[1]"}
    for name, text in wrong.items():
        (registry.folder() / f"{name}.json").write_text(text)
    assert registry.recorded() == [dead]
    listed = call("scratch", "list")
    assert listed.code == 0
    assert "removed 0123abcd, whose process has died" in listed.out
    assert listed.err.count("warning    ") == listed.err.count("is no record of scratch") == 3
    assert f"run 'umount {registry.folder() / 'newer'}' and remove" in listed.err
    assert registry.recorded() == []
    assert {f"{name}.json" for name in wrong} <= set(os.listdir(registry.folder()))


def test_programs_that_do_not_end_are_waited_for_together(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever makes scratch waits for the lock meanwhile."""
    blank = Scratch("", NAMESPACE, str(storage), SIZE, "", owner=DEAD, owner_started=1)
    names = [f"0123abc{digit}" for digit in range(5)]
    for name in names:
        registry.record(replace(blank, name=name, folder=str(registry.folder() / name)))
    polls: list[float] = []

    class Clock:
        """Time passes by polls alone."""

        sleep = polls.append

        @staticmethod
        def monotonic() -> float:
            return sum(polls)

    with monkeypatch.context() as patch:
        patch.setattr(removing, "time", Clock)
        patch.setattr(removing, "_signal", lambda *_: None)
        patch.setattr(program, "processes_of", lambda *_: [1])
        with registry.locked():
            assert removing.sweep() == []
    assert sum(polls) < 1.5 * removing._END_S
    assert [one.name for one in registry.recorded()] == names


def test_storages_that_do_not_answer_are_waited_for_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile nobody else may make any scratch."""
    waited = []

    def silent(limit_s: float, _do: Callable[[], object]) -> None:
        waited.append(limit_s)
        raise TimeoutError

    made = [create(Wish(tmp_path, SIZE, DIRECTORY)) for _ in range(3)]
    for one in made:
        registry.record(replace(one, owner=DEAD, owner_started=1))
    with monkeypatch.context() as patch:
        patch.setattr(removing, "within", silent)
        patch.setattr(removing, "_END_S", 0.0)
        assert removing.sweep() == []
    assert waited == [removing._LEAST_END_S] * 3
    assert len(removing.sweep()) == 3


@needs_root
def test_who_sees_it_elsewhere_is_not_cut_off(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container has mounts of its own, and this one among them."""
    monkeypatch.setattr(removing, "_END_S", 0.2)
    scratch = made(storage, is_kept=True)
    words = ["unshare", "--mount", "sh", "-c", 'cd "$0"; echo; read line; touch a', scratch.folder]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        with pytest.raises(ScratchInUse, match="somebody sees it in a mount namespace of his own"):
            removing.remove(scratch)
        other.communicate(b"\n")
    assert other.returncode == 0
    await_that("the end of its program", lambda: not program.processes_of(scratch))
    removing.remove(scratch)
    assert is_gone(scratch, storage)


IN_USE = """
import sys
from hyperslab.apps.scratch import wish_of
from hyperslab.storage.scratch import removing
from hyperslab.storage.scratch.making import create
made = create(wish_of(sys.argv[1], 16 << 20, "namespace", is_kept=True))
removing._END_S = 0.2
with open(made.path + "/a", "w") as file:
    try:
        removing.remove(made)
    except removing.ScratchInUse as why:
        print(why)
    file.write("a")
removing._END_S = 30.0
removing.remove(made)
"""
"Removes scratch while a file in it is open, and after that."


@needs_root
def test_who_has_a_file_open_in_a_namespace_is_not_cut_off(storage: Path, nobody: Nobody) -> None:
    """It is its program that unmounts it there, as often as it is told to."""
    with nobody([sys.executable, "-c", IN_USE, str(storage)]) as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert out.startswith("/proc/")
    assert "is in use: leave it and close its files, or give --force (its program" in out
    assert os.listdir(storage) == []


def test_what_does_not_answer_is_listed_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it is waited for once."""
    place = tmp_path / "tier"
    place.mkdir()
    with mounted(place, Settings()) as emulation:
        kept = [made(place, way="directory", is_kept=True) for _ in range(3)]
        assert emulation.pid is not None
        os.kill(emulation.pid, signal.SIGSTOP)
        try:
            monkeypatch.setattr(sizing, "ANSWER_S", 0.2)
            listed = call("scratch", "list").out
        finally:
            os.kill(emulation.pid, signal.SIGCONT)
        assert listed.count("it does not answer") == len(kept)
        for scratch in kept:
            removing.remove(scratch)
