"""Workers have scratch of their own on whatever host, of which nothing is left, whoever dies."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab
from benchmarks.nobody import NOBODY, as_nobody
from hyperslab import Pipeline
from hyperslab.driver.options import Options
from hyperslab.driver.result import told_of_scratch
from hyperslab.engines import EngineOptions, lifeline, require
from hyperslab.engines.scratched import arguments, words_before
from hyperslab.errors import RunStopped, UsageError
from hyperslab.storage.scratch.program import PROGRAM
from tests.engines.looking import LOOK, require_own, seen
from tests.repetitions import repeats
from tests.storage.scratch.stage import free_for_all, needs_root, require_program
from tests.storage.scratch.stage import hyperslab as hyperslab_command
from tests.system.clusters import mpi, sshd
from tests.system.clusters.another_host import APART, another_host
from tests.system.clusters.required import required
from tests.system.end_to_end.command import ANATOMICAL, call, succeed
from tests.system.faults.command import PATIENCE_S, await_that, make_volume

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


def without_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no scratch be made but a plain directory."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv(PROGRAM.variable, "/nowhere/program")


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
    script = 'touch "$TMPDIR/a"; echo $$; exec sleep 3600'
    process = subprocess.Popen(words(place, script), stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as said:
        worker = Path(f"/proc/{int(said.readline())}")
        process.kill()
        process.wait()
        await_that("the end of the worker", lambda: not worker.exists())
        assert said.read() == b"", "whoever had it open is gone"
    assert os.listdir(place / "storage") == []
    assert left(place) != []
    run(place, "true")
    assert left(place) == []


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGTERM, 128 + signal.SIGTERM),
        (signal.SIGINT, 3),
        (signal.SIGHUP, 128 + signal.SIGHUP),
        (signal.SIGUSR1, 4),
    ],
)
def test_it_ends_in_order_when_it_is_told_to(
    place: Path, number: signal.Signals, status: int
) -> None:
    """The command takes Ctrl-C itself, and what is meant for it alone."""
    script = 'trap "exit 3" INT; trap "exit 4" USR1; sleep 60 & echo $$; wait; echo late'
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored
    try:
        process = subprocess.Popen(words(place, script), stdout=-1)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert process.stdout is not None
    with process.stdout as said:
        said.readline()
        process.send_signal(number)
        assert process.wait() == status
        assert said.read() == b""
    assert left(place) == []


def test_ctrl_c_ends_a_command_that_was_told_to_end_and_takes_its_time(place: Path) -> None:
    script = 'trap "echo told" TERM; trap "exit 3" INT; echo; while :; do sleep 0.1; done'
    process = subprocess.Popen(words(place, script), stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        with process.stdout as said:
            said.readline()
            process.send_signal(signal.SIGTERM)
            assert said.readline() == b"told\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    finally:
        process.kill()
    assert left(place) == []


def test_what_became_of_its_files_is_told_however_it_ends(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_programs(monkeypatch)
    script = [*words_before(f"image:{place / 'storage'}", place), "/bin/sh", "-c"]
    process = subprocess.Popen([*script, "echo; exec /bin/sleep 60"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as said:
        said.readline()
        process.terminate()
        assert process.wait() == 128 + signal.SIGTERM
    (note,) = told_of_scratch(place)
    assert note.startswith(f"{HERE}: temporary files went to a plain directory: fuse: ")
    assert left(place) == []


REMOVES = """
import sys, time
from hyperslab.engines import scratched
from hyperslab.storage.scratch import removing

def slowly(place, discard=removing._discard):
    print("removing", flush=True)
    time.sleep(1)
    discard(place)

removing._discard = slowly
_, *given, sys.argv[1:] = [*sys.argv, ["true"]]
scratched.main(*given)
"""
"A command with scratch, whose removal takes its time."


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGKILL, -9)]
)
def test_scratch_that_is_being_removed_is_gone_then_or_at_the_next_start(
    place: Path, number: signal.Signals, status: int
) -> None:
    given = arguments(f"image:{place / 'storage'}", place)
    process = subprocess.Popen([sys.executable, "-c", REMOVES, *given], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == b"removing\n"
        process.send_signal(number)
        assert process.wait() == status
    assert (left(place) == []) == (status == 0)
    run(place, "true")
    assert left(place) == []


@needs_root
def test_what_cannot_be_removed_is_a_warning(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command has done its work; it has left a mount where its temporary files are."""
    without_programs(monkeypatch)
    script = 'cd "$TMPDIR"; /bin/mkdir a; /bin/mount -t tmpfs small a; pwd'
    line = [*words_before(f"image:{place / 'storage'}", place), "/bin/sh", "-c", script]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    folder = done.stdout.strip()
    monkeypatch.undo()
    try:
        assert (done.returncode, done.stderr) == (0, "")
        _, note = told_of_scratch(place)
        (record,) = (place / "runtime" / "hyperslab-scratch").glob("*.json")
        assert note.startswith(f"{HERE}: scratch {record.stem} on {place}/storage could not be")
        assert f"removed: {folder} remains: something is mounted at {folder}/a, " in note
        assert f"'hyperslab scratch remove {record.stem}' on {HERE} removes what remains" in note
    finally:
        subprocess.run(["umount", f"{folder}/a"], check=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place / "runtime"))
    assert succeed("scratch", "remove", record.stem) == f"removed {record.stem}\n"
    assert left(place) == []


def test_variables_have_the_values_of_the_host(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "image:$OF_A_JOB"
    assert Options(engine="slurm", scratch=text).scratch == text
    line = [*words_before(text, place), "sh", "-c", 'stat -f -c %T "$TMPDIR"']
    monkeypatch.setenv("OF_A_JOB", str(place / "storage"))
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("fuse")
    monkeypatch.setenv("OF_A_JOB", "")
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 75
    said = f"{HERE}: --scratch: {text} is not known on {HERE}, where OF_A_JOB is not set; give a"
    assert done.stderr.startswith(f"hyperslab stopped: no scratch could be made on {said}")


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
    why = f"--scratch {place}/storage: there is"
    said = f"hyperslab stopped: no scratch could be made on {HERE}: {why}"
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
    with pytest.raises(RunStopped, match=rf"no scratch could be made on {HERE}: scratch.*storage"):
        look_by("mpi", place, workers=1)


@needs_root
def test_ranks_in_user_namespaces_send_large_messages(place: Path) -> None:
    """Without root and without a mount helper, where MPI copies from one process to another."""
    required(mpi.missing())
    make_volume(place / "in.nii")
    (place / "large.py").write_text(LARGE)
    os.chown(place, NOBODY, NOBODY)
    words = ("run", f"{place / 'large.py'}:TOTAL", place / "in.nii", "-o", place / "out", "-q")
    more = ("--engine", "mpi", "--workers", "2", "--blocks", "4", "--no-report", "--no-trial")
    scratch = ("--scratch", f"image:{place / 'storage'}")
    process = as_nobody(["env", "PATH=/nowhere", *hyperslab_command(*words, *more, *scratch)])
    said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, *said) == (0, "", "")
    assert np.load(place / "out" / "result.npy").shape == (10**5,)


LARGE = """
import os, tempfile
import numpy as np
import hyperslab

def lift(block):
    assert os.path.ismount(tempfile.gettempdir())
    return np.full(10**5, int(block.sum()))

TOTAL = hyperslab.Fold(lift, lambda a, b: a + b)
"""
"A reduction whose values are too large for the letter boxes that ranks of one host share."

SEES = """
import sys
from hyperslab.engines.lifeline import Lifeline
path, pipe, machine, numbering = sys.argv[1:]
print(Lifeline(path, pipe, machine, int(numbering)).is_seen())
"""


@needs_root
@pytest.mark.parametrize(("apart", "is_seen"), [(["--user"], True), (["--user", "--pid"], False)])
def test_a_driver_is_known_from_a_user_namespace(apart: list[str], is_seen: bool) -> None:
    """By its number, if processes are numbered alike there."""
    fields = map(str, astuple(lifeline.own()))
    line = ["unshare", *apart, "--fork", sys.executable, "-c", SEES, *fields]
    said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert said == f"{is_seen}\n"


@pytest.mark.parametrize("without", [0, 1])
def test_no_rank_waits_for_one_that_cannot_have_it(place: Path, without: int) -> None:
    """Though what starts them lets the others wait when one has ended."""
    required(mpi.missing())
    make_volume(place / "in.nii")
    words = ("run", "increment", place / "in.nii", "-o", place / "out", "--no-report", "-q")
    where = ("--engine", "mpi", "--connect", "world", "--scratch", "image:$OF_A_RANK")
    given = [str(place / "storage")] * 2
    given[without] = str(place / "nowhere")
    each = [
        ("-n", "1", "env", f"OF_A_RANK={one}", *hyperslab_command(*words, *where)) for one in given
    ]
    launcher = (mpi.started(1)[0], "-disable-auto-cleanup")
    line = [*launcher, *each[0], ":", *each[1]]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode != 0  # which it is, mpiexec says as it likes
    why = f"--scratch {place}/nowhere: there is no such directory"
    said = f"no scratch could be made on {HERE}: {why}"
    assert said in done.stderr
    assert done.stderr.count("no scratch") == 1
    assert left(place) == []


def test_what_a_world_cannot_have_is_refused_before_it_is_joined(place: Path) -> None:
    words = ("run", "increment", ANATOMICAL, "-o", place / "out", "--stage-in", "scratch")
    where = ("--engine", "mpi", "--connect", "world", "--scratch", "auto")
    line = hyperslab_command(*words, *where)
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--stage-in is for workers of this host" in done.stderr


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
