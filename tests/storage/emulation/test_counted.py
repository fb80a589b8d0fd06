"""Operations counted by a file system of ours over a directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hyperslab.apps.files.counting import count_files
from hyperslab.errors import UsageError
from hyperslab.storage.accounting import fuse, strace
from hyperslab.storage.accounting.choosing import choose
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.mounts import mounts
from tests.repetitions import repeats
from tests.storage.emulation.tiers import mounted, require_program
from tests.system.clusters import spark
from tests.system.clusters.required import required
from tests.system.end_to_end.command import AS_INSTALLED
from tests.system.faults.command import await_that

PROGRAM = """
import os
assert os.listdir(".") == ["there"]
assert open("there").read() == "before"  # open
for number in range(3):
    file = os.open(f"f{number}", os.O_RDWR | os.O_CREAT | os.O_EXCL)  # create
    os.write(file, b"x" * 1000)
    os.close(file)
for number in range(2):
    os.close(os.open(f"f{number}", os.O_RDONLY))  # open
os.mkdir("sub")
os.rename("f0", "sub/f0")
os.unlink("f1")
raise SystemExit(3)
"""


def test_what_reaches_a_directory_is_counted(
    in_memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_program()
    (in_memory / "there").write_text("before")
    monkeypatch.chdir(in_memory)
    command = [sys.executable, "-I", "-c", PROGRAM]
    status, totals = fuse.count(command, os.environ, in_memory)
    counts = {name: count.requested for name, count in totals.operations.items()}
    assert status == 3
    names = ("open", "create", "mkdir", "rename", "unlink")
    assert [counts[name] for name in names] == [3, 3, 1, 1, 1]
    assert totals.operations["write"].nbytes == 3000
    assert totals.operations["read"].nbytes == len("before")
    assert not [one for one in mounts() if one.mount_point == str(in_memory)]
    assert sorted(os.listdir(in_memory)) == ["f2", "sub", "there"]


def test_what_a_command_has_left_in_the_background_is_waited_for(
    in_memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_program()
    monkeypatch.chdir(in_memory)
    script = "exec 3>late; { sleep 0.2; echo x >&3; } & exit 3"
    status, totals = fuse.count(["sh", "-c", script], os.environ, in_memory)
    assert status == 3
    assert (in_memory / "late").read_text() == "x\n"
    assert totals.operations["write"].nbytes == 2
    assert not [one for one in mounts() if one.mount_point == str(in_memory)]


def test_a_directory_is_as_before_once_the_command_of_who_was_killed_has_ended(
    in_memory: Path,
) -> None:
    require_program()
    (in_memory / "there").write_text("before")
    script = f"echo begun; read line; cat {in_memory}/there"
    words = [*AS_INSTALLED, "trace-files", "--way", "fuse", "--on", str(in_memory)]
    pipe = subprocess.PIPE
    with subprocess.Popen([*words, "--", "sh", "-c", script], stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.kill()
        process.wait()
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"before"

    def is_mounted() -> bool:
        return any(one.mount_point == str(in_memory) for one in mounts())

    await_that("the end of the count", lambda: not is_mounted())
    assert (in_memory / "there").read_text() == "before"


def test_what_cannot_be_counted_on_is_refused(tmp_path: Path) -> None:
    require_program()
    with pytest.raises(UsageError, match=r"missing is no directory"):
        fuse.count(["true"], os.environ, tmp_path / "missing")
    with pytest.raises(UsageError, match=r"--way fuse: it counts on one directory"):
        choose("fuse", None)
    with pytest.raises(UsageError, match=r"--on .* is for --way fuse, not strace"):
        choose("strace", tmp_path)
    assert choose(None, tmp_path).way == "fuse"


def test_nothing_stays_mounted_when_there_is_no_program(tmp_path: Path) -> None:
    require_program()
    with pytest.raises(UsageError, match=r"no-such-program: there is no such program"):
        fuse.count(["no-such-program"], os.environ, tmp_path)
    assert not [one for one in mounts() if one.mount_point == str(tmp_path)]


@repeats("operations are counted: experiment/test_reads.py; told of: report/test_files.py")
def test_a_shuffle_on_a_metadata_server_is_told_what_to_do(in_memory: Path, tmp_path: Path) -> None:
    required(strace.why_not())
    required(spark.missing())
    sizes = ("partitions=4", "reducers=4", "keys=30", "rounds=3", "warmups=0")
    given = [word for size in sizes for word in ("--param", size)]
    program = [sys.executable, "-m", "hyperslab.apps.experiment.programs.table", "spark-pairs"]
    command = [*program, "group-by-worst", "--out", str(tmp_path / "out"), "--workers", "2", *given]
    scratch = in_memory / "scratch"
    scratch.mkdir()
    with mounted(scratch, Settings(metadata_s=0.003)):
        environment = {**os.environ, "SPARK_LOCAL_DIRS": str(scratch)}
        counted = count_files(command, choose("strace", None), ("phase",), environment)
    assert counted.status == 0
    assert "threads waited for names and attributes of files for shuffle" in counted.advice
    assert "--scratch image:DIR" in counted.advice
