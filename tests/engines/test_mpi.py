"""The mpi engine keeps the contract of engines, on a world of its own, and what it rests on."""

from __future__ import annotations

import queue
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hyperslab
from hyperslab.apps.probing import probe_hosts
from hyperslab.driver.options import Options
from hyperslab.driver.result import Result
from hyperslab.engines import EngineOptions, require
from hyperslab.engines.mpi import held, messages, mpiexec, portions
from hyperslab.engines.mpi.ending import first_dead
from hyperslab.engines.mpi.engine import slots_of
from hyperslab.engines.mpi.held import Invitation, Watch
from hyperslab.errors import RunStopped, TasksFailed, UsageError
from hyperslab.testing import EngineTests
from tests.engines.briefly import BRIEF_PROBE
from tests.engines.chosen import HANDED_OUT
from tests.loaded import fills_own_disk, slow_total
from tests.repetitions import few, only, repeats
from tests.system.clusters import mpi
from tests.system.clusters.required import required
from tests.system.faults.command import await_that, make_volume

CROWDED = """
import resource, socket
from hyperslab.engines.mpi.held import Watch

resource.setrlimit(resource.RLIMIT_NOFILE, (300, 400))
watch = Watch("localhost")
place = (watch.invitation.host, watch.invitation.port)
ends = [socket.create_connection(place) for _ in range(100)]
for rank, end in enumerate(ends):
    end.sendall(watch.invitation.line_of(rank))
watch.await_ranks(len(ends))
watch.close()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
print(len(watch._ranks))
"""
"A driver of more ranks than it may hold connections of, beside what else it opens."
RANKS = [{"pid": 71, "host": "a"}, {"pid": 72, "host": "a"}, {"pid": 71, "host": "b"}]
SAID = {
    "MPICH": (
        "=   PID 72 RUNNING AT a\n=   EXIT CODE: 11\n=====\nSegmentation fault (signal 11)\n",
        (1, "was killed by SIGSEGV"),
    ),
    "MPICH, code": (
        "=   PID 72 RUNNING AT a\n=   EXIT CODE: 7\n=   CLEANING UP REMAINING PROCESSES\n",
        (1, "exited with code 7"),
    ),
    "MPICH, two hosts": (
        "=   PID 71 RUNNING AT b\n=   EXIT CODE: 9\n=====\nEXIT STRING: Killed (signal 9)\n",
        None,
    ),
    "Open MPI, signal": (
        "mpiexec noticed that process rank 2 with PID 0 on node b exited on signal 9 (Killed).\n",
        (2, "was killed by SIGKILL (kill -9, or the kernel's out-of-memory killer)"),
    ),
    "Open MPI, code": (
        "The first process to do so was:\n\n  Process name: [[21507,1],1]\n  Exit code:    7\n",
        (1, "exited with code 7"),
    ),
    "Slurm": ("srun: error: node3: task 2: Killed\n", (2, "died (Killed)")),
    "nothing": ("", None),
}
"What launchers say of a rank that has died, and which it was."


@only(HANDED_OUT)
class TestMpi(EngineTests):
    engine = "mpi"

    @pytest.fixture(autouse=True)
    def _enough(self) -> None:
        required(mpi.missing())


BOTH = [(3, 1), (2, 2)]


@pytest.mark.parametrize(("workers", "threads"), few(BOTH[:1], BOTH, "values add up"))
def test_functions_travel_by_value_and_their_values_add_up(
    tmp_path: Path, workers: int, threads: int
) -> None:
    """Three ranks make a tree of two levels, one of which has an odd node."""
    required(mpi.missing())
    values = np.arange(4000, dtype=np.int64).reshape(40, 100)
    factor = 3
    fold = hyperslab.Fold(lambda block: int(block.sum()) * factor, lambda a, b: a + b)
    pipeline = hyperslab.Pipeline(values).reduce(fold)
    rule = hyperslab.Rule("blocks", (40, 1))
    options = Options(engine="mpi", workers=workers, threads=threads, rule=rule)
    result = hyperslab.run(pipeline, options, out=tmp_path / "out")
    assert result.value == 3 * values.sum()
    assert result.summary.moved_nbytes > 0
    assert len(result.trace.slots) == workers * threads
    assert result.summary.startup_s > 0


def test_values_larger_than_messages_stay_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    required(mpi.missing())
    monkeypatch.setattr("hyperslab.engines.mpi.engine.Mpi.limit_nbytes", 1000)
    fold = hyperslab.Fold(lambda block: np.full(5000, int(block.sum())), lambda a, b: a + b)
    pipeline = hyperslab.Pipeline(np.ones((8, 4), np.int64)).reduce(fold)
    rule = hyperslab.Rule("blocks", (8, 1))
    result = hyperslab.run(pipeline, engine="mpi", workers=2, rule=rule, out=tmp_path / "out")
    assert np.array_equal(result.value, np.full(5000, 32))
    assert len(list((result.folder / "partials").iterdir())) == 1, "what was merged is removed"


ELSEWHERE = """#!/bin/sh
[ "$1" = --version ] && exec {mpiexec} --version
shift 2
exec {mpiexec} -n 1 "$@" : -n 1 unshare --map-root-user --uts --mount \\
    sh -c 'hostname elsewhere; mount -t tmpfs none {unseen}; exec "$@"' sh "$@"
"""
"""An mpiexec that starts one rank here and one in a place with a host name of its own, and a folder
of its own where others see another one.
"""


@pytest.fixture
def unseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the second of two ranks does not see; messages and counter go over the network,
    and rank 0 serves the counter from a thread.
    """
    required(mpi.missing())
    folder = tmp_path / "unseen"
    folder.mkdir()
    launcher = tmp_path / "launcher"
    launcher.write_text(ELSEWHERE.format(mpiexec=mpi.started(2)[0], unseen=folder))
    launcher.chmod(0o755)
    monkeypatch.setenv(mpiexec.VARIABLE, str(launcher))
    monkeypatch.setenv("MPIR_CVAR_NOLOCAL", "1")
    return folder


def total(values: Any, out: Path, workers: int, **options: Any) -> Result:
    """Add up an array in 40 blocks."""
    fold = hyperslab.Fold(lambda block: int(block.sum()), lambda a, b: a + b)
    pipeline = hyperslab.Pipeline(values).reduce(fold)
    rule = hyperslab.Rule("blocks", (40, 1))
    return hyperslab.run(pipeline, engine="mpi", workers=workers, rule=rule, out=out, **options)


def test_ranks_of_other_hosts_have_slots_of_their_own(tmp_path: Path, unseen: Path) -> None:
    result = total(np.ones((40, 100), np.int64), tmp_path / "out", 2)
    assert result.value == 4000
    assert [slot.rpartition("/w")[0] for slot in result.trace.slots] == [
        socket.gethostname(),
        "elsewhere",
    ]
    assert result.trace.meta["clocks"].keys() == {socket.gethostname(), "elsewhere"}


APART = """#!/bin/sh
[ "$1" = --version ] && exec {mpiexec} --version
shift 2
exec {mpiexec} -n 1 "$@" : -n 1 unshare --map-root-user --pid --fork --mount-proc \\
    sh -c 'cd /proc/sys/kernel; echo $(($(cat pid_max) - 99)) > ns_last_pid; "$@"; exit $?' sh "$@"
"""
"""An mpiexec that starts one rank here, and one on a host of the same name that numbers its
processes apart.
"""


def test_a_rank_is_not_taken_for_a_process_of_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that no process has here, so that the rank would be taken for dead."""
    required(mpi.missing())
    launcher = tmp_path / "launcher"
    launcher.write_text(APART.format(mpiexec=mpi.started(2)[0]))
    launcher.chmod(0o755)
    monkeypatch.setenv(mpiexec.VARIABLE, str(launcher))
    monkeypatch.setenv("MPIR_CVAR_NOLOCAL", "1")
    monkeypatch.setenv("UCX_TLS", "tcp,self")
    fold = hyperslab.Fold(slow_total, lambda a, b: a + b)
    pipeline = hyperslab.Pipeline(np.ones((40, 100), np.int64)).reduce(fold)
    result = hyperslab.run(pipeline, engine="mpi", workers=2, blocks=40, out=tmp_path / "out")
    assert result.value == 4000
    here = socket.gethostname()
    assert result.trace.slots == [f"{here}/w0/t0", f"{here}/w1/t0"]


def test_a_folder_that_a_rank_does_not_see_stops_the_run(unseen: Path) -> None:
    said = f"the workers on elsewhere cannot write to {unseen}/out/.*on a file system that driver"
    with pytest.raises(RunStopped, match=said):
        total(np.ones((40, 100), np.int64), unseen / "out", 2)


def test_a_source_that_a_rank_does_not_see_is_told_with_its_host(
    tmp_path: Path, unseen: Path
) -> None:
    make_volume(unseen / "in.nii")
    fold = hyperslab.Fold(slow_total, lambda a, b: a + b)
    pipeline = hyperslab.Pipeline(str(unseen / "in.nii")).reduce(fold)
    with pytest.raises(TasksFailed) as raised:
        hyperslab.run(
            pipeline, engine="mpi", workers=2, partition="slabs", retries=0, out=tmp_path / "out"
        )
    here = socket.gethostname()
    said = (
        f"{unseen}/in.nii: elsewhere does not see this file, which is there on {here}: put it on a"
        " file system that all hosts share, under one path; "
    )
    failures = raised.value.failures
    assert {one.message.startswith(said) for one in failures} == {True}
    assert 0 < len(failures) < 32, "the rank that sees it has done its part"


@repeats("storage is looked at and probed on every host: test_probed_hosts.py")
def test_storage_is_looked_at_and_probed_on_every_host(
    tmp_path: Path, unseen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hosts = [socket.gethostname(), "elsewhere"]
    options = Options(engine="mpi", workers=2)
    found = hyperslab.tiers(unseen, options)
    assert [tier.host for tier in found] == hosts
    assert found[0].device != found[1].device
    probed = probe_hosts([unseen], BRIEF_PROBE, options)
    assert sorted(tier.host for tier in probed.tiers) == sorted(hosts)
    assert sorted(probed.sharing[0].hosts) == sorted(hosts)
    assert list(unseen.iterdir()) == []


def test_a_thread_that_cannot_go_on_ends_the_round_for_the_others(tmp_path: Path) -> None:
    required(mpi.missing())
    folder = tmp_path / "begun"
    folder.mkdir()
    fold = hyperslab.Fold(fills_own_disk, lambda a, b: a + b)
    pipeline = hyperslab.Pipeline(np.ones((200, 10), np.int64))
    reduction = pipeline.reduce(fold, {"folder": str(folder)})
    where: dict[str, Any] = {"engine": "mpi", "workers": 1, "threads": 2, "out": tmp_path / "out"}
    with pytest.raises(RunStopped, match="the run directory cannot be written"):
        hyperslab.run(reduction, blocks=200, check=False, report=False, **where)
    assert 2 <= len(list(folder.iterdir())) < 100, "no more than the portions that were drawn"


def test_threads_need_an_mpi_that_takes_calls_of_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    required(mpi.missing())
    monkeypatch.setenv("MPI4PY_RC_THREAD_LEVEL", "serialized")
    with pytest.raises(RunStopped, match="without MPI_THREAD_MULTIPLE, which ranks of several"):
        total(np.ones((40, 100), np.int64), tmp_path / "out", 1, threads=2)


@pytest.mark.parametrize(("tasks", "slots"), [(0, 2), (1, 8), (32, 2), (1000, 3), (10_000, 64)])
def test_portions_hold_every_task_and_shrink(tasks: int, slots: int) -> None:
    sizes = list(portions.sizes(tasks, slots))
    assert sum(sizes) == tasks
    assert sizes == sorted(sizes, reverse=True)
    assert all(1 <= size <= portions.MOST_TASKS for size in sizes)
    assert sizes[-slots:] == [1] * min(slots, tasks)


def test_portions_are_read_by_number_and_by_nobody_else(tmp_path: Path) -> None:
    tasks: Any = [f"task {number}" for number in range(100)]
    path = tmp_path / "portions"
    portions.write(path, portions.cut(tasks, 2))
    written = portions.Portions(path)
    read = [task for number in range(len(written)) for task in written.tasks(number)]
    assert read == tasks
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


class Comm:
    """A communicator of threads."""

    def __init__(self, rank: int, boxes: Sequence[Any]) -> None:
        self.rank, self.size = rank, len(boxes)
        self._boxes = boxes

    def isend(self, value: Any, to: int, tag: int) -> Any:
        self._boxes[to][self.rank, tag].put(value)
        return SimpleNamespace(test=lambda: (True, None))

    def improbe(self, source: int, tag: int) -> Any:
        box = self._boxes[self.rank][source, tag]
        return None if box.empty() else SimpleNamespace(recv=box.get)


def together(size: int, act: Callable[[Any], Any]) -> list[Any]:
    """What every rank of a world of threads returns."""
    tags = (messages.ORDER, messages.PART)
    boxes: Any = [
        {(source, tag): queue.SimpleQueue() for source in range(size) for tag in tags}
        for _ in range(size)
    ]
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(act, [Comm(rank, boxes) for rank in range(size)]))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_a_tree_brings_every_part_to_rank_0_once(size: int) -> None:
    def act(comm: Any) -> Any:
        order = messages.spread(comm, "order" if comm.rank == 0 else None)
        assert order == "order"
        return messages.gathered(comm, [comm.rank], lambda a, b: a + b)

    first, *others = together(size, act)
    assert sorted(first) == list(range(size))
    assert others == [None] * (size - 1)


def test_whoever_waits_sleeps_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("hyperslab.engines.mpi.messages.time.sleep", slept.append)
    waiting = messages.pauses()
    for _ in range(20):
        next(waiting)
    assert slept == sorted(slept)
    assert slept[0] == messages.LEAST_PAUSE_S
    assert slept[-1] == messages.MOST_PAUSE_S


@pytest.mark.parametrize("case", list(SAID))
def test_the_rank_that_died_is_found_in_what_was_said(case: str) -> None:
    said, expected = SAID[case]
    found = first_dead(said, RANKS)
    assert (found and (found.rank, found.how)) == expected


def test_slots_are_numbered_on_each_host() -> None:
    slots = slots_of([{"host": "a"}, {"host": "b"}, {"host": "a"}], 2)
    assert list(map(str, slots)) == [
        "a/w0/t0",
        "a/w0/t1",
        "b/w0/t0",
        "b/w0/t1",
        "a/w1/t0",
        "a/w1/t1",
    ]


def connected(invitation: Invitation, line: bytes) -> tuple[socket.socket, bytes]:
    """A connection to a driver, and what this says to a line."""
    end = socket.create_connection((invitation.host, invitation.port), held.LIMIT_S)
    end.sendall(line)
    return end, end.recv(1)


def test_ranks_are_admitted_while_the_driver_waits_for_others() -> None:
    """Kernels let few connections wait; and a stranger is in nobody's way."""
    watch = Watch("localhost")
    stranger, said = connected(watch.invitation, b"word 0\n")
    stranger.close()
    assert said == b""
    ends = []
    for rank in range(2):
        end, said = connected(watch.invitation, watch.invitation.line_of(rank))
        assert said == b"!"
        ends.append(end)
    watch.await_ranks(len(ends))
    watch.close()
    assert watch.gone() == []
    ends[1].close()
    await_that("the end of a connection", watch.gone)
    assert watch.gone() == [1]
    held._let_go()
    ends[0].close()


def test_a_driver_holds_as_many_connections_as_it_can() -> None:
    """It raises its limit, and leaves descriptors to all else."""
    done = subprocess.run(
        [sys.executable, "-c", CROWDED], capture_output=True, text=True, check=True
    )
    limits, admitted = done.stdout.splitlines()
    assert limits == "400 400"
    assert 0 < int(admitted) < 100


def test_other_addresses_are_refused() -> None:
    with pytest.raises(UsageError, match="--connect mars: --engine mpi takes world alone"):
        require("mpi", EngineOptions(Path(), 2, connect="mars"))


@repeats("items go to ranks by number, all of them once: the tests of portions, above")
def test_counter_and_masters_can_be_measured_beside_each_other() -> None:
    """As note 19 does; a counter leaves no rank without items."""
    required(mpi.missing())
    numbers = ["--items", "200", "--busy-items", "40", "--repeats", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_draws", *numbers],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    _, *rows = done.stdout.splitlines()
    got = [[int(n) for n in re.findall(r"(\d+) items", row)] for row in rows]
    assert [sum(items) for items in got] == [200] * 3 + [40] * 3
    assert min(got[3]) > 0, rows[3]
