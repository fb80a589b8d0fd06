"""Why a trial failed, as what it has printed says, and what is kept of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.trials.process import keep_records, reason_in
from hyperslab.apps.experiment.trials.runner import Experiment, Wish, begin
from hyperslab.cli.trials import Silent
from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import RunStopped
from tests.apps.experiment.specs import TEXT
from tests.apps.experiment.syncing import waited_for

SPARK = """\
26/11/24 14:30:52 WARN TaskSetManager: Lost task 0.0: java.lang.OutOfMemoryError: x
java.lang.OutOfMemoryError: Required array size too large
\tat java.base/java.io.InputStream.readNBytes(InputStream.java:420)
py4j.protocol.Py4JJavaError: An error occurred while calling z:collectAndServe.
: org.apache.spark.SparkException: Job 0 cancelled because SparkContext was shut down
\tat java.base/java.lang.Thread.run(Thread.java:840)

"""

TOO_LARGE = "java.lang.OutOfMemoryError: Required array size too large"


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("", ""),
        ("warning\nhyperslab: the disk is full\nbye\n", "the disk is full"),
        ('Traceback\n  File "a.py", line 1\nKeyError: 3\n\n', "KeyError: 3"),
        (SPARK, TOO_LARGE),
        (f"{SPARK}py4j.protocol.Py4JError: SparkSession does not exist in the JVM", TOO_LARGE),
        (f"{SPARK}ConnectionRefusedError: [Errno 111] Connection refused", TOO_LARGE),
        ("py4j.protocol.Py4JNetworkError: x", "py4j.protocol.Py4JNetworkError: x"),
        ("\tat java.base/java.lang.Thread.run\n", "at java.base/java.lang.Thread.run"),
    ],
)
def test_the_reason_is_found(printed: str, reason: str) -> None:
    assert reason_in(printed.splitlines()) == reason


WHERE = """\
import os

def where(block, iterations=1, delay=0):
    with open({path!r}, "a") as file:
        print(sorted(os.sched_getaffinity(0)), file=file)
    return block
"""


def test_all_of_a_trial_is_pinned_where_the_factor_says(tmp_path: Path) -> None:
    """A task of a worker, in a process of its own, reads what it may run on."""
    seen = tmp_path / "seen"
    chosen = max(os.sched_getaffinity(0))
    (tmp_path / "own.py").write_text(WHERE.format(path=str(seen)))
    text = TEXT.replace('"increment"', '"own.py:where"\nprobe_s = 0').replace("serial", "processes")
    text = text.replace("delay = 0\n", 'delay = 0\nprocessors = "all"\n')
    text = text.replace("delay = [0.01]\n", f'processors = ["{chosen}"]\n')
    spec = tmp_path / "spec.toml"
    spec.write_text(text)
    asked = Experiment.of(find(str(spec)).load(None), tmp_path / "out")
    wanted = [one for one in asked.trials if one.cell.changed == ("processors",)][:1]
    [attempt] = begin(asked, Wish(wanted), Silent()).attempts
    assert (attempt.state, attempt.reason) == ("done", "")
    assert set(seen.read_text().splitlines()) == {str([chosen])}


MEMORY = Path("/dev/shm")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """Outputs of a run on another file system, with two of its records."""
    if not MEMORY.is_dir() or MEMORY.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system at /dev/shm: mount a tmpfs there")
    out = Path(tempfile.mkdtemp(dir=MEMORY))
    records = RunDirectory(out).new_folder()
    for name in ("summary.json", "plan.json"):
        (records / name).write_text(name)
    yield out
    shutil.rmtree(out)


def test_records_are_on_storage_when_a_trial_is_said_to_be_done(
    elsewhere: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "trials" / "0001-1"
    folder.mkdir(parents=True)
    with waited_for() as found:
        keep_records(elsewhere, folder)
    kept = [folder / name for name in ("summary.json", "plan.json")]
    assert [path.read_text() for path in kept] == [path.name for path in kept]
    assert found == [*kept, folder, folder.parent]


def test_records_that_do_not_fit_end_the_runner(elsewhere: Path, tmp_path: Path) -> None:
    (tmp_path / "summary.json").symlink_to("/dev/full")
    with pytest.raises(RunStopped, match=r"No space left on device.*: make room, then go on"):
        keep_records(elsewhere, tmp_path)
