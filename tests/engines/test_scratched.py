"""Workers have scratch of their own on whatever host, of which nothing is left, whoever dies."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import hyperslab
from benchmarks.nobody import NOBODY, as_nobody
from hyperslab import Pipeline
from hyperslab.driver.options import Options
from hyperslab.driver.result import told_of_scratch
from hyperslab.engines import EngineOptions, require
from hyperslab.engines.scratched import words_before
from hyperslab.errors import RunStopped, UsageError
from tests.engines.looking import LOOK, require_own, seen
from tests.repetitions import repeats
from tests.storage.scratch.stage import free_for_all, needs_root, require_program
from tests.system.clusters import mpi, sshd
from tests.system.clusters.another_host import APART, another_host
from tests.system.clusters.required import required
from tests.system.end_to_end.command import ANATOMICAL, call
from tests.system.faults.command import await_that, make_volume

HERE = socket.gethostname()
OTHER = "other"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of everybody's, with one for storage, one for records and one for what is told."""
    require_program()
    with free_for_all() as folder:
        for name in ("storage", "runtime", "told"):
            (folder / name).mkdir(mode=0o700)
            if os.geteuid() == 0:
                os.chown(folder / name, NOBODY, NOBODY)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "runtime"))
        yield folder


def words(place: Path, script: str) -> list[str]:
    """A shell's script with scratch of its own."""
    return [*words_before(f"image:{place / 'storage'}", place), "sh", "-c", script]


def run(place: Path, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words(place, script), capture_output=True, text=True, check=False)


def left(place: Path) -> list[str]:
    """What is left of scratch, but for the lock of its records."""
    runtime = place / "runtime" / "hyperslab-scratch"
    return [*os.listdir(place / "storage"), *set(os.listdir(runtime)).difference({"lock"})]


def test_a_command_ends_as_without_and_nothing_is_left(place: Path) -> None:
    done = run(place, 'touch "$TMPDIR/a"; stat -f -c %T "$TMPDIR"; exit 7')
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout.startswith("fuse")
    killed = run(place, 'touch "$TMPDIR/a"; kill -9 $$')
    assert killed.returncode == 128 + signal.SIGKILL
    assert left(place) == []
    assert told_of_scratch(place) == []


def test_it_ends_with_what_has_made_its_scratch(place: Path) -> None:
    """And with its scratch, but for a record, which the next one removes."""
    process = subprocess.Popen(words(place, 'touch "$TMPDIR/a"; echo $$; exec sleep 60'), stdout=-1)
    assert process.stdout is not None
    with process.stdout as said:
        worker = Path(f"/proc/{int(said.readline())}")
        process.kill()
        process.wait()
        assert said.read() == b"", "whoever had it open is gone"
    await_that("the end of the worker", lambda: not worker.exists())
    assert os.listdir(place / "storage") == []
    assert left(place) != []
    run(place, "true")
    assert left(place) == []


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, 3)]
)
def test_it_ends_in_order_when_it_is_told_to(
    place: Path, number: signal.Signals, status: int
) -> None:
    """The command takes Ctrl-C itself."""
    script = 'trap "exit 3" INT; sleep 60 & echo $$; wait; echo late'
    process = subprocess.Popen(words(place, script), stdout=-1)
    assert process.stdout is not None
    with process.stdout as said:
        said.readline()
        process.send_signal(number)
        assert process.wait() == status
        assert said.read() == b""
    assert left(place) == []


@needs_root
def test_nobody_has_it_in_a_user_namespace(place: Path) -> None:
    """A worker there is killed, and then what has made its scratch."""
    scripts = ('touch "$TMPDIR/a"; kill -9 $$', 'touch "$TMPDIR/a"; kill -9 $PPID; sleep 60')
    for script in scripts:
        process = as_nobody(["env", "PATH=/bin", "TMPDIR=/tmp", *words(place, script)])
        said = process.communicate()
        assert (process.returncode in (-9, 137), *said) == (True, "", "")
        assert os.listdir(place / "storage") == []


def test_where_none_can_be_made_is_told_with_the_host(place: Path) -> None:
    shutil.rmtree(place / "storage")
    done = run(place, "true")
    assert done.returncode == 75
    said = f"hyperslab stopped: no scratch could be made on {HERE}: --on {place}/storage: there is"
    assert done.stderr.startswith(said)


def test_records_of_another_host_s_session_are_not_missed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job has the variables of the host from where it was submitted."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place / "absent"))
    monkeypatch.setenv("TMPDIR", str(place / "runtime"))
    done = run(place, 'echo "$TMPDIR"')
    assert done.stdout.startswith(f"{place}/runtime/hyperslab-scratch-{os.geteuid()}/")


@needs_root
def test_a_plain_directory_is_told_with_its_reasons(place: Path) -> None:
    process = as_nobody(["env", "PATH=/bin", *words(place, "true")], has_device=False)
    assert process.communicate() == ("", "")
    os.chown(place / "runtime", os.geteuid(), os.getegid())
    (note,) = told_of_scratch(place)
    assert note.startswith(f"{HERE}: temporary files went to a plain directory: fuse: /dev/fuse")


def test_workers_of_others_have_none() -> None:
    with pytest.raises(UsageError, match=r"^scratch is for workers that the run starts, and"):
        Options(engine="dask-futures", connect="tcp://10.0.0.1:1", scratch="auto")
    assert Options(engine="dask-bag", connect="slurm", scratch="auto").scratch == "auto"
    with pytest.raises(UsageError, match=r"^scratch: engine='processes' gives its workers none"):
        Options(scratch="auto")
    with pytest.raises(UsageError, match=r"connect world run already"):
        require("mpi", EngineOptions(Path(), 2, connect="world", scratch="auto"))


def test_commands_have_their_folders_in_it() -> None:
    given = Options(engine="slurm", scratch="image:here")
    assert given.scratch == f"image:{os.getcwd()}/here"
    assert given.work_of_nodes == "$TMPDIR"
    assert Options(engine="slurm", scratch="auto", work_tier="/fast").work_of_nodes == "/fast"


def test_staging_there_is_for_workers_of_this_host(tmp_path: Path) -> None:
    flags = ("--engine", "slurm", "--scratch", "auto", "--stage-out", "scratch")
    refused = call("run", "increment", ANATOMICAL, "-o", tmp_path / "out", *flags)
    assert refused.code == 2
    assert "--stage-out is for workers of this host" in refused.err


def look_by(engine: str, place: Path, **more: Any) -> list[dict[str, Any]]:
    """What workers of an engine see, each of them with an image on one storage."""
    make_volume(place / "in.nii")
    pipeline = Pipeline(str(place / "in.nii")).map(LOOK, {"folder": str(place / "told")})
    hyperslab.run(
        pipeline.write(place / "out", keep="volume"),
        engine=engine,
        scratch=f"image:{place / 'storage'}",
        report=False,
        blocks=2,
        trial=False,
        **more,
    )
    return seen(place / "told")


def test_jobs_on_a_host_of_ssh_have_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("parallel") is None:
        required("there is no GNU Parallel here: install the Debian package parallel")
    required(sshd.missing())
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode:
        required("no host names can be made apart here (unshare, as root)")
    monkeypatch.setenv("PARALLEL_HOME", str(place / "parallel"))
    monkeypatch.setattr("hyperslab.engines.gnu_parallel.engine.GnuParallel.batches_per_slot", 1)
    with sshd.hosts(place / "ssh", ["one"], another_host(OTHER)) as there:
        for name, value in there.environment.items():
            monkeypatch.setenv(name, value)
        there_runtime = Path(f"/tmp/hyperslab-scratch-{os.geteuid()}")
        told = look_by("gnu-parallel", place, connect="ssh:1/one")
    assert {one["host"] for one in told} == {OTHER}
    assert len({one["place"] for one in told}) == len(told)
    assert all(one["is_mounted"] for one in told)
    assert all(Path(one["place"]).parent == there_runtime for one in told)
    assert os.listdir(place / "storage") == []


@repeats("ranks have scratch of their own, and MPI begins behind it: of a world, below")
def test_ranks_have_it(place: Path) -> None:
    required(mpi.missing())
    told = look_by("mpi", place, workers=2)
    require_own(told, place / "storage", place / "runtime")


def test_ranks_that_cannot_have_it_are_told(place: Path) -> None:
    required(mpi.missing())
    shutil.rmtree(place / "storage")
    with pytest.raises(RunStopped, match=rf"no scratch could be made on {HERE}: on.*storage"):
        look_by("mpi", place, workers=1)


TELLS = "sh -c 'stat -f -c %T {work} > {out}/{name}; echo {work} $TMPDIR >> {out}/{name}'"


def test_commands_of_a_world_have_it(place: Path) -> None:
    required(mpi.missing())
    files: Sequence[Path] = [place / f"in{number}.txt" for number in range(2)]
    for path in files:
        path.touch()
    asked = ("--command", TELLS, *files, "-o", place / "out", "--no-report", "-q")
    where = ("--engine", "mpi", "--connect", "world", "--scratch", f"image:{place / 'storage'}")
    line = [*mpi.started(2), "hyperslab", "run", *map(str, (*asked, *where))]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    told = list((place / "out").glob("in*"))
    assert len(told) == len(files)
    for path in told:
        kind, work, temporary = path.read_text().split()
        assert kind.startswith("fuse")
        assert work == temporary
        assert work.startswith(f"{place}/runtime/hyperslab-scratch/")
    assert left(place) == []
