"""Operations on files of Spark, against what its code says that there have to be.

Formulas of a shuffle with M map and R reduce tasks, all of whose blocks hold something: each block
is read by opening index and data, 2 M R; up to the threshold each map task also opens a file for
each reduce task, which it has made, M R.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace

import pytest

from hyperslab.accesses import Accesses
from hyperslab.apps.files.counting import numbers_by
from hyperslab.report.files.numbers import FileNumbers
from hyperslab.storage.accounting import bpf, strace
from tests.apps.files.spark_program import DIRECTORIES
from tests.formats.files import ROOT
from tests.repetitions import repeats
from tests.system.clusters import spark
from tests.system.clusters.required import required, required_to_count

pytestmark = repeats(
    "operations on files are counted: experiment/test_reads.py; Spark's known: report/test_files.py"
)
M, R, MORE = 4, 5, 12
THRESHOLD = 8


@pytest.fixture(scope="module", params=[strace, bpf], ids=[strace.WAY, bpf.WAY])
def jobs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Accesses]:
    """Operations of each job of one Spark, counted in each way that knows every one."""
    way = request.param
    required_to_count(way)
    required(spark.missing())
    folder = tmp_path_factory.mktemp("spark")
    for name in (*DIRECTORIES, "events"):
        (folder / name).mkdir()
    program = ["-m", "tests.apps.files.spark_program", str(folder), *map(str, (M, R, MORE))]
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    status, accesses = way.count([sys.executable, *program], environment)
    assert status == 0
    times = json.loads((folder / "times.json").read_text())
    return {"all": accesses} | {name: between(accesses, *limits) for name, limits in times.items()}


def between(accesses: Accesses, start_ns: int, end_ns: int) -> Accesses:
    """Those of a time."""
    begun = accesses.columns["start_ns"]
    rows = (begun >= start_ns) & (begun <= end_ns)
    columns = {name: column[rows] for name, column in accesses.columns.items()}
    return replace(accesses, columns=columns)


def requested(numbers: FileNumbers, operation: str, **names: str) -> int:
    """Number of such operations in the groups of these names."""
    return sum(
        group.requested(operation)
        for group in numbers.groups
        if all(group.names[name] == value for name, value in names.items())
    )


def of(jobs: dict[str, Accesses], job: str) -> FileNumbers:
    return numbers_by(jobs[job], ("kind", "phase"))


def test_a_reader_of_text_opens_two_files_a_partition(jobs: dict[str, Accesses]) -> None:
    """The file, and that of its checksums."""
    assert requested(of(jobs, "text"), "open", kind="reader", phase="result") == 2 * M


def test_a_reader_of_parquet_opens_four_files_a_partition(jobs: dict[str, Accesses]) -> None:
    """The footer, then the columns: each the file, and that of its checksums."""
    assert requested(of(jobs, "parquet"), "open", kind="reader") == 4 * M


def test_a_shuffle_up_to_the_threshold(jobs: dict[str, Accesses]) -> None:
    numbers = of(jobs, "few")
    assert requested(numbers, "open", kind="shuffle") == 3 * M * R
    assert requested(numbers, "open", phase="shuffle read") == 2 * M * R
    assert requested(numbers, "create", kind="shuffle") == M * R + 3 * M
    assert requested(numbers, "unlink", phase="shuffle write") == M * R


def test_a_shuffle_beyond_the_threshold(jobs: dict[str, Accesses]) -> None:
    numbers = of(jobs, "many")
    assert requested(numbers, "open", kind="shuffle") == 2 * M * MORE
    assert requested(numbers, "open", phase="shuffle write") == 0
    assert requested(numbers, "create", kind="shuffle") == 3 * M


def test_evicted_blocks_are_written_once_and_read_again(jobs: dict[str, Accesses]) -> None:
    first, again = of(jobs, "evict"), of(jobs, "again")
    assert requested(first, "create", phase="eviction") == M
    assert requested(again, "create", kind="eviction") == 0
    assert requested(again, "open", phase="re-read") == M


def test_stages_are_those_of_the_event_log(jobs: dict[str, Accesses]) -> None:
    phases = {group.names["phase"] for group in of(jobs, "all").groups}
    assert {"map", "result", "outside of stages", "shuffle write", "shuffle read"} <= phases


def test_a_shuffle_without_checksums_makes_a_file_less_for_each_map_task(
    jobs: dict[str, Accesses],
) -> None:
    numbers = of(jobs, "unchecked")
    assert requested(numbers, "open", kind="shuffle") == 3 * M * R
    assert requested(numbers, "create", kind="shuffle") == M * R + 2 * M


def test_of_two_directories_each_has_files_of_a_shuffle(jobs: dict[str, Accesses]) -> None:
    """However slow it is: which one a file goes to its name says."""
    numbers = numbers_by(jobs["unchecked"], ("kind", "directory"))
    made = {
        name: sum(
            group.requested("create")
            for group in numbers.groups
            if group.names["kind"] == "shuffle" and f"/{name}/" in group.names["directory"]
        )
        for name in DIRECTORIES
    }
    assert sum(made.values()) == M * R + 2 * M
    assert min(made.values()) > 0.2 * (M * R + 2 * M)
