"""Experiments whose runner or trials meet with something: what is recorded is whole, and resume
does the rest, once.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from hyperslab.apps.experiment.record import Record, load
from tests.system.faults.command import await_that, command, hyperslab
from tests.system.faults.disk import small_disk

SPEC = """\
title = "Short"
workload = "{workload}"
replicates = {replicates}
trial_limit_s = {limit_s}
probe_s = 0

[source]
synth = "bigbrain"
size = "{size}"

[baseline]
engine = "serial"
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
) -> Path:
    path = folder / "short.toml"
    text = SPEC.format(
        workload=workload,
        replicates=replicates,
        limit_s=limit_s,
        delays=list(delays),
        size=size,
    )
    path.write_text(text)
    return path


def _record(out: Path) -> Record:
    return load(out / "record.jsonl")


def _told(text: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(text)
    return found


def test_a_runner_that_is_killed_loses_one_trial(tmp_path: Path) -> None:
    spec = _spec(tmp_path, replicates=2, delays=(0.01, 0.02))
    out = tmp_path / "out"
    line = command("experiment", "run", spec, "--out", out)
    runner = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    await_that("a trial that is recorded", lambda: _record(out).attempts)
    time.sleep(random.uniform(0, 0.6))
    trials = psutil.Process(runner.pid).children(recursive=True)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    before = _record(out)
    assert 1 <= len(before.attempts) < 6
    assert before.damaged == 0
    await_that(
        "the end of the trial under way", lambda: not any(map(psutil.Process.is_running, trials))
    )
    done = hyperslab("experiment", "resume", spec, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    after = _record(out)
    assert sorted(attempt.number for attempt in after.attempts) == [1, 2, 3, 4, 5, 6]
    assert list(after.attempts[: len(before.attempts)]) == list(before.attempts)
    assert {attempt.state for attempt in after.attempts} == {"done"}
    assert [session.number for session in after.sessions] == [1, 2]
    assert not list(out.rglob("*.nii"))
    again = hyperslab("experiment", "resume", spec, "--out", out)
    assert again.returncode == 0, again.stderr
    assert len(_record(out).attempts) == 6


def test_trials_that_hang_or_fail_stay_with_their_reason(tmp_path: Path) -> None:
    """A trial sleeps beyond its limit, another fails; a changed spec is refused, and so is a second
    runner; what a record does not hold whole is run again.
    """
    (tmp_path / "mine.py").write_text(
        "import time\n\ndef work(block, delay=0.0):\n    if delay == 2.0:\n"
        "        raise ValueError('two is too much')\n    time.sleep(delay)\n    return block\n"
    )
    spec = _spec(tmp_path, "mine.py:work", limit_s=8.0, delays=(2.0, 60.0))
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
    assert by_delay[60.0].state == "too long"
    assert by_delay[60.0].wall_s < 60
    assert by_delay[2.0].state == "failed"
    assert "two is too much" in by_delay[2.0].reason
    assert "two is too much" in " ".join(map(str, [_told(text)["certainty"]]))
    spec.write_text(spec.read_text().replace("replicates = 1", "replicates = 2"))
    changed = hyperslab("experiment", "resume", spec, "--out", out)
    assert changed.returncode == 2
    assert "replicates: 2, was 1" in changed.stderr


def test_half_a_line_is_a_trial_that_is_run_again(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    out = tmp_path / "out"
    assert hyperslab("experiment", "run", spec, "--out", out, "--quiet").returncode == 0
    path = out / "record.jsonl"
    path.write_bytes(path.read_bytes()[:-100])
    lost = _record(out)
    assert lost.damaged == 1
    done = hyperslab("experiment", "resume", spec, "--out", out)
    assert done.returncode == 0, done.stderr
    assert sorted(attempt.number for attempt in _record(out).attempts) == [1, 2]
    assert "Damaged in the record: 1 line" in done.stdout


def test_a_disk_that_is_full_loses_nothing(tmp_path: Path) -> None:
    """What cannot fit is refused before anything begins; a trial that fills the disk has failed,
    and is run again where that is asked for.
    """
    with small_disk(tmp_path / "disk", 6 * 2**20) as disk:
        out = disk.path / "out"
        spec = _spec(tmp_path, size="8MiB")
        refused = hyperslab("experiment", "run", spec, "--out", out, inside=disk.inside)
        assert refused.returncode == 2
        assert "the experiment needs" in refused.stderr
        (tmp_path / "mine.py").write_text(
            "import os\n\ndef fill(block, delay=0.0):\n"
            f"    if block.size > 10_000 and not os.path.exists({str(tmp_path / 'enough')!r}):\n"
            f"        open({str(disk.path / 'filler')!r}, 'ab').write(bytes(2**24))\n"
            "    return block\n"
        )
        spec = _spec(tmp_path, "mine.py:fill", size="1MiB", delays=[])
        full = hyperslab("experiment", "run", spec, "--out", out, inside=disk.inside)
        failed = _record(disk.seen / "out").attempts
        assert [one.state for one in failed] == ["failed"], full.stderr
        assert "space" in failed[0].reason
        assert full.returncode == 1
        (disk.seen / "filler").unlink()
        (tmp_path / "enough").touch()
        going = ("experiment", "resume", spec, "--out", out)
        as_it_was = hyperslab(*going, inside=disk.inside)
        assert as_it_was.returncode == 1
        assert list(_record(disk.seen / "out").attempts) == list(failed)
        done = hyperslab(*going, "--retry-failed", inside=disk.inside)
        assert done.returncode == 0, done.stderr
        assert [one.state for one in _record(disk.seen / "out").attempts] == ["failed", "done"]
