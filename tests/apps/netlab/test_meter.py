"""Meters of laboratories that lose a part: that is told, soon and in a sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hyperslab.apps.netlab import meter as meters
from hyperslab.apps.netlab.meter import MOST_FAILURES, Meter, metered
from hyperslab.apps.netlab.running import lines_of
from hyperslab.errors import RunStopped
from hyperslab.machine.foreground import run_in_foreground
from hyperslab.network.lab import laboratory, remove
from hyperslab.network.lab.backends import emulator
from hyperslab.network.lab.namespaces import network_file, processes
from hyperslab.network.lab.reading import Reading
from hyperslab.network.lab.registry import SWITCH, Lab
from tests.network.lab.labs import TOLERANT, require, spec
from tests.system.faults.command import await_that

SMALL = '[nodes.w1]\nrate = "50Mbit"\n'


@pytest.fixture(scope="module")
def lab(records: Path) -> Iterator[Lab]:
    require("emulator")
    with laboratory(spec(f'{TOLERANT}backend = "emulator"\n{SMALL}')) as made:
        yield made


def test_a_process_of_the_cluster_that_ends_is_told(lab: Lab) -> None:
    with (
        subprocess.Popen([*lab.prefix("w1"), "sleep", "1000"]) as worker,
        metered(lab, {worker.pid: "w1"}) as meter,
    ):
        await_that("some samples", lambda: len(meter.samples) > 2)
        assert (meter.died, meter.spoiled) == ([], "")
        assert meter.usage().died == ()
        worker.kill()
        await_that("its end", lambda: bool(meter.died))
        assert meter.spoiled == "what ran on w1 has died"
    usage = meter.usage()
    assert usage.died == ("w1",)
    assert "note       what ran on w1 has died meanwhile" in lines_of(lab, usage, None)


def test_others_that_end_are_none_of_the_cluster(lab: Lab) -> None:
    with metered(lab, {}) as meter:
        subprocess.run([*lab.prefix("w1"), "sleep", "1.5"], check=True)
    assert meter.spoiled == ""


def fails(times: int) -> Callable[[Lab], Reading]:
    """What reads counters, but for so many times."""
    read = emulator.read
    left = [times]

    def reading(lab: Lab) -> Reading:
        if left[0]:
            left[0] -= 1
            raise ValueError("nobody expects this")
        return read(lab)

    return reading


def test_a_look_may_fail(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the last one, which is made once more then."""
    with metered(lab, {}) as meter:
        monkeypatch.setattr(meters, "STEP_S", 0.01)
        monkeypatch.setattr(emulator, "read", fails(MOST_FAILURES - 1))
        seen = len(meter.samples)
        await_that("further samples", lambda: len(meter.samples) > seen + 2)
        assert meter.lost == ""
        monkeypatch.setattr(meters, "STEP_S", 1000.0)
        time.sleep(0.1)
        monkeypatch.setattr(emulator, "read", fails(MOST_FAILURES - 1))
        ended_ns = time.monotonic_ns()
    assert meter.lost == ""
    assert meter.samples[-1].at_ns > ended_ns


def test_what_nobody_foresaw_does_not_end_it_silently(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    with metered(lab, {}) as meter:
        monkeypatch.setattr(emulator, "read", fails(1000))
        await_that("the loss", lambda: bool(meter.lost))
    told = r"were lost: its counters cannot be read \(ValueError: nobody expects this\)"
    for ask in (meter.require_links, meter.usage):
        with pytest.raises(RunStopped, match=told):
            ask()


@pytest.mark.parametrize("backend", ["kernel", "emulator"])
def test_a_laboratory_that_is_taken_away_ends_what_runs_in_it(records: Path, backend: str) -> None:
    require(backend)
    with (
        laboratory(spec(f'{TOLERANT}backend = "{backend}"\n{SMALL}')) as made,
        metered(made, {}) as meter,
    ):
        remove(made)
        lost = until_lost(meter, ["sleep", "1000"])
    assert lost.startswith(f"the links of '{made.name}' were lost: ")
    assert meter.spoiled == lost


def until_lost(meter: Meter, words: list[str]) -> str:
    """What is said of the end of a command."""
    with pytest.raises(RunStopped) as stopped:
        run_in_foreground(words, os.environ, look=meter.require_links)
    return str(stopped.value)


def test_a_command_that_does_not_end_is_killed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it waits for what will never come, now that the emulator is no more."""
    monkeypatch.setattr("hyperslab.machine.foreground.ENDING_LIMIT_S", 0.5)
    stubborn = ["sh", "-c", "trap '' TERM; while true; do sleep 0.1; done"]
    (program,) = processes([network_file(lab.place, SWITCH)])
    with metered(lab, {}) as meter:
        os.kill(program, signal.SIGKILL)
        lost = until_lost(meter, stubborn)
    assert f"were lost: hyperslab-links of '{lab.name}' does not answer" in lost
