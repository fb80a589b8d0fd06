"""`hyperslab probe` as users type it, what it keeps, what ends it; and what runs make of it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from hyperslab.cli import probe as verb
from hyperslab.storage.probing.folder import PREFIX
from hyperslab.storage.probing.preparing import Effort
from tests.repetitions import few
from tests.system.end_to_end.command import Finished, call, succeed
from tests.system.faults.command import (
    PATIENCE_S,
    Running,
    await_gone,
    await_that,
    make_volume,
    program,
)
from tests.system.faults.disk import small_disk

BRIEF = ("--quick", "--clients", "1", "--size", "2MB")


def probe(*arguments: object, machine: Path) -> Finished:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYPERSLAB_MACHINE", str(machine))
        return call("probe", *arguments)


def folders(place: Path) -> list[Path]:
    return sorted(place.glob(f"{PREFIX}*"))


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A place that was probed, and the description that holds it."""
    place = tmp_path_factory.mktemp("place")
    machine = tmp_path_factory.mktemp("kept") / "machine.json"
    done = probe(place, *BRIEF, machine=machine)
    assert done.code == 0, done.err
    assert [line.split()[0] for line in done.out.splitlines()[-2:]] == ["saved", "page"]
    for label in ("write", "buffered", "latency", "names", "opening"):
        assert f"\n  {label} " in done.out
    return place, machine


def test_it_keeps_a_description_and_a_page(probed: tuple[Path, Path]) -> None:
    place, machine = probed
    tiers = json.loads(machine.read_text())["tiers"]
    assert [tier["path"] for tier in tiers.values()] == [str(place)]
    page = machine.with_suffix(".html").read_text()
    assert page.count("<svg") == 4
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert list(place.iterdir()) == []


def test_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "QUICK", Effort(0.002, 1, 1, 60.0))
    place = tmp_path / "place"
    place.mkdir()
    kept = tmp_path / "kept.json"
    drawn = tmp_path / "drawn.svg"
    asked: dict[str, Any] = {"quick": True, "clients": 1, "output": kept, "json": True}
    verb.probe([place, place], "1MB", picture=drawn, **asked)
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [tier["path"] for tier in told["tiers"]] == [str(place)]
    assert told["tiers"][0]["curves"]["write"]["points"][0]["rate"]["values"]
    assert told["machine"] == str(kept)
    assert (tmp_path / "kept.html").is_file()
    assert drawn.read_text().startswith("<svg ")


def test_a_run_says_what_its_storage_was_probed_to_do(
    probed: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, machine = probed
    make_volume(place / "scan.nii")
    out = place / "out"
    monkeypatch.setenv("HYPERSLAB_MACHINE", str(machine))
    said = succeed("run", "increment", place / "scan.nii", "-o", out, "--engine", "serial", "-v")
    assert "the run took" in said
    told = json.loads(succeed("report", out, "--json"))
    assert told["expected"]["rates"]["from"].startswith(f"probe of {place} on ")
    assert told["provenance"]
    typed = json.loads(succeed("report", out, "--json", "--bandwidth", "1GB"))
    assert typed["expected"]["rates"] == {
        "read_nbytes_per_s": 10**9,
        "write_nbytes_per_s": 10**9,
    }
    monkeypatch.setenv("HYPERSLAB_MACHINE", str(place / "none.json"))
    kept = json.loads(succeed("report", out, "--json"))
    assert kept["expected"]["rates"]["from"].startswith(f"probe of {place} on ")


SIGNALS = [signal.SIGTERM, signal.SIGINT]


@pytest.mark.parametrize("number", few(SIGNALS[:1], SIGNALS, "a signal ends it at once"))
def test_a_signal_ends_it_at_once_and_leaves_nothing(tmp_path: Path, number: int) -> None:
    running = under_way(tmp_path)
    running.process.send_signal(number)
    running.process.communicate(timeout=PATIENCE_S)
    assert running.process.returncode == 130
    assert folders(tmp_path) == []


def test_after_kill_9_the_next_call_removes_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data.nii").write_bytes(b"1")
    running = under_way(tmp_path)
    clients = running.workers()
    running.process.kill()
    running.process.communicate()
    left = folders(tmp_path)
    assert len(left) == 1
    await_gone(clients)
    monkeypatch.setattr(verb, "QUICK", Effort(0.002, 1, 1, 60.0))
    verb.probe([tmp_path], "1MB", quick=True, clients=1, output=tmp_path.parent / "kept.json")
    assert f"{left[0]} was left by a probe that died" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["data.nii"]


def under_way(place: Path) -> Running:
    """A probe that is measuring."""
    running = Running("probe", place, "--size", "16MB", "--clients", "1", "-o", place.parent / "m")
    await_that(
        "a probe that measures",
        lambda: any(place.glob(f"{PREFIX}*/kept.0")) or running.has_ended,
    )
    assert not running.has_ended
    return running


def test_a_disk_that_would_become_too_full_is_refused(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 20 * 10**6) as disk:
        done = program("probe", disk.path, "--size", "9MB", inside=disk.inside)
        assert done.returncode == 2
        assert "needs 20.2 MB" in done.stderr
        assert folders(disk.seen) == []
        disk.remount("ro")
        refused = program("probe", disk.path, "--size", "1MB", inside=disk.inside)
        assert refused.returncode == 2
        assert "is mounted read-only" in refused.stderr


def test_a_damaged_description_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    machine = tmp_path / "machine.json"
    machine.write_text("{}")
    done = probe(tmp_path, machine=machine)
    assert done.code == 2
    assert "is damaged" in done.err
    assert folders(tmp_path) == []
