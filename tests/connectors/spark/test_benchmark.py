"""The benchmark of loading into Spark: its parser of event logs, its slopes, and its page.
`python -m benchmarks.spark_smoke` plays all of it on a few megabytes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from benchmarks import bench_spark_files, spark_page
from benchmarks.gates import Gates
from benchmarks.spark_checksum import checksum, of_points, of_rows, total
from benchmarks.spark_data import DATASET, gzip, plain
from benchmarks.spark_events import EventLog, launches, read_log
from benchmarks.spark_gates import judge
from benchmarks.spark_slopes import Line, Load, fit, line, ratio
from benchmarks.spark_ways import BLOCKS, H5PY, H5SPARK, ROWS, slab_rows
from hyperslab.errors import FormatError, UsageError
from tests.formats.files import ROOT
from tests.repetitions import few

SUBMITTED_MS = 1_000_000
FEW = 4


def event(name: str, **more: Any) -> str:
    return json.dumps({"Event": f"SparkListener{name}", **more}) + "\n"


def stage(number: int, group: str | None) -> str:
    info = {"Stage ID": number, "Stage Attempt ID": 0, "Submission Time": SUBMITTED_MS}
    properties = {"spark.jobGroup.id": group} if group else None
    return event("StageSubmitted", **{"Stage Info": info, "Properties": properties})


def start(number: int, of_stage: int, delay_ms: int, index: int = 0, attempt: int = 0) -> str:
    info = {
        "Task ID": number,
        "Index": index,
        "Attempt": attempt,
        "Launch Time": SUBMITTED_MS + delay_ms,
    }
    info["Executor ID"] = 0
    return event("TaskStart", **{"Stage ID": of_stage, "Stage Attempt ID": 0, "Task Info": info})


def end(number: int, of_stage: int, reason: str = "Success", gc_ms: int = 0) -> str:
    info = {"Task ID": number, "Finish Time": SUBMITTED_MS + 5000}
    return event(
        "TaskEnd",
        **{
            "Stage ID": of_stage,
            "Stage Attempt ID": 0,
            "Task End Reason": {"Reason": reason},
            "Task Info": info,
            "Task Metrics": {"JVM GC Time": gc_ms},
        },
    )


LOG = [
    event("LogStart", **{"Spark Version": "4.3.0"}),
    stage(0, "mine"),
    start(0, 0, 100),
    start(1, 0, 200, 1),
    end(1, 0, gc_ms=250),
    end(0, 0, "ExceptionFailure"),
    start(2, 0, 2100, 0, 1),
    end(2, 0, gc_ms=500),
    stage(1, None),
    start(3, 1, 9000),
    end(3, 1, gc_ms=9999),
    stage(2, "again"),
    start(4, 2, 400),
]


def logged(path: Path, lines: list[str]) -> EventLog:
    path.write_text("".join(lines), encoding="utf-8")
    return read_log(path)


def test_an_event_log_tells_launches_failures_and_collections_of_a_job_group(
    tmp_path: Path,
) -> None:
    log = logged(tmp_path / "log", LOG)
    found = launches(log, ["mine"])
    assert (found.tasks, found.failed, found.relaunched, found.gc_s) == (3, 1, 1, 0.75)
    assert list(found[1:6]) == pytest.approx([0.1, 0.2, 2.1, 2.1, 2 / 3])
    assert found.behind_s == pytest.approx(2.0)
    both = launches(log, ["mine", "again"])
    assert (both.tasks, both.failed, both.first_s, both.last_s) == (4, 1, 0.25, 2.1)
    assert log.tasks[-1].finish_ms is None
    with pytest.raises(ValueError, match="no task of nobody"):
        launches(log, ["nobody"])


def test_a_cut_last_line_is_left_out_and_any_other_damage_is_an_error(tmp_path: Path) -> None:
    whole = logged(tmp_path / "log", LOG)
    cut = logged(tmp_path / "cut", [*LOG, end(4, 2)[:40]])
    assert cut == whole
    for number, damaged in enumerate(('{"Event": "Spark\n', "[1]\n", '{"no": "event"}\n')):
        with pytest.raises(FormatError, match="line 3: not an event"):
            logged(tmp_path / f"damaged-{number}", [*LOG[:2], damaged, *LOG[2:]])
    with pytest.raises(FormatError, match=f"line {len(LOG) + 1}"):
        logged(tmp_path / "ended", [*LOG, end(4, 2)[:40] + "\n"])


def test_logs_that_are_compressed_or_in_pieces_are_refused(tmp_path: Path) -> None:
    (tmp_path / "local-1.zstd").write_bytes(b"\x28\xb5\x2f\xfd....")
    with pytest.raises(UsageError, match=r"spark\.eventLog\.compress=false"):
        read_log(tmp_path / "local-1.zstd")
    with pytest.raises(UsageError, match=r"spark\.eventLog\.rolling\.enabled=false"):
        read_log(tmp_path)


def test_a_line_tells_fixed_costs_from_those_of_bytes() -> None:
    sizes = (250_000_000, 1_000_000_000, 4_000_000_000)
    assert fit((n, 0.5 + n * 2e-10) for n in sizes) == pytest.approx(Line(0.5, 0.2))
    with pytest.raises(ValueError, match="two sizes"):
        fit([(10, 1.0), (10, 2.0)])
    loads = []
    for number, disturbed in enumerate(
        (1.0, 1.0, 30.0)
    ):  # one round of three is spoilt, for both ways
        for n in sizes:
            loads.append(Load(number, "a", "plain", n, (0.5 + n * 6e-10) * disturbed))
            loads.append(Load(number, "b", "plain", n, (0.1 + n * 2e-10) * disturbed))
    loads += [Load(9, "a", "plain", n, 1.0) for n in sizes]  # flat, and b is missing in this round
    assert line([load for load in loads if load.round < 3], "a", "plain") == pytest.approx(
        Line(0.5, 0.6)
    )
    found = ratio(loads, "plain", "a", "b")
    assert found is not None
    assert found == pytest.approx((3.0, 3.0, 3.0, 3, 3))
    loads = [*loads, *(Load(9, "b", "plain", n, 1.0 - n * 1e-11) for n in sizes)]
    assert ratio(loads, "plain", "a", "b") == pytest.approx((3.0, 3.0, 3.0, 3, 4))
    assert ratio(loads, "gzip", "a", "b") is None


def test_gates_are_of_slopes_and_what_was_not_measured_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    costs = {
        ("plain", BLOCKS): 1,
        ("plain", H5PY): 2,
        ("gzip", BLOCKS): 1,
        ("gzip", H5SPARK): 3,
        ("gzip", ROWS): 2.5,
    }
    loads = [
        Load(1, way, kind, n, 7 + n * cost) for (kind, way), cost in costs.items() for n in (1, 2)
    ]
    gates = Gates()
    judged = {one.rule.what: one for one in judge(loads, gates, [BLOCKS, H5PY, H5SPARK, ROWS])}
    found = judged["read_blocks / (h5py's / 2), plain"].found
    assert found is not None
    assert found.middle == pytest.approx(1.0)
    assert gates.failed == 1  # 3 / 2.5 < 1.5
    said = capsys.readouterr().out
    assert "GATE FAILS: H5Spark-like rows / h5read, gzip: 1.20 (at least 1.5)" in said
    assert "not judged, since one of the two was left out: read_blocks / MPI, plain" in said
    judge([load for load in loads if load.kind == "gzip"], gates, [BLOCKS, H5PY, H5SPARK, ROWS])
    assert gates.failed == 3


def test_a_page_is_filled_between_its_marks_and_needs_each_once(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    spark_page.write(page, dict.fromkeys(spark_page.NAMES, "old"))
    assert page.read_text(encoding="utf-8").count("old") == len(spark_page.NAMES)
    page.write_text(f"before\n\n{page.read_text(encoding='utf-8')}\nafter\n", encoding="utf-8")
    spark_page.write(page, {"plain": "| new \\1 |"})
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert (text.count("old"), text.count("| new \\1 |")) == (len(spark_page.NAMES) - 1, 1)
    page.write_text(text.replace(spark_page.opening("gzip"), ""), encoding="utf-8")
    with pytest.raises(ValueError, match="needs one block <!-- bench-spark: gzip -->"):
        spark_page.require_blocks(page)
    spark_page.require_blocks(tmp_path / "none.md")
    spark_page.require_blocks(ROOT / "docs" / "spark.md")


def test_checksums_do_not_depend_on_how_the_values_come(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((70, 200))
    expected = (
        sum(int(word) for word in values.tobytes() and np.frombuffer(values.tobytes(), "u8"))
        % 2**64
    )
    assert checksum(values) == expected
    assert total(of_rows(iter(values[::-1]))) == expected
    assert total([*of_rows(values[:9]), *of_rows(values[9:])]) == expected
    assert total(of_points((value, 0) for value in values.T.reshape(-1).tolist())) == expected
    changed = values.copy()
    changed[5, 7] = np.nextafter(changed[5, 7], 2)
    assert checksum(changed) != expected
    for matrix in (plain(tmp_path, 1_000_000, with_parquet=True), gzip(tmp_path, 8_000_000)):
        with h5py.File(matrix.path, "r") as file:
            stored = file[DATASET]
            assert stored.shape == (matrix.rows, matrix.columns)
            assert stored.compression == (None if matrix.kind == "plain" else "gzip")
            assert checksum(stored[()]) == matrix.checksum
            assert matrix.nbytes == stored.nbytes
        rows = [
            row
            for start in range(0, matrix.rows, 99)
            for row in slab_rows(str(matrix.path), 99, matrix.rows, start)
        ]
        assert len(rows) == matrix.rows
        assert total(of_rows(rows)) == matrix.checksum


def test_many_small_files_hold_numbers_of_their_own(tmp_path: Path) -> None:
    expected = bench_spark_files.make(tmp_path / "files", 30)
    found = []
    for path in (tmp_path / "files").glob("*/*.h5"):
        with h5py.File(path, "r") as file:
            found.append(file[DATASET][()])
    assert len(found) == 30
    assert total(map(checksum, found)) == expected
    assert {values[0, 0] for values in found} == set(range(30))


@pytest.mark.parametrize("ranks", few([2], [1, 2], "every value is read beside Spark"))
def test_the_processes_beside_spark_read_every_value(tmp_path: Path, ranks: int) -> None:
    from benchmarks.reader_process import ReaderProcess
    from benchmarks.spark_reader import MpiReader

    if ranks > 1:
        pytest.importorskip("mpi4py", reason="the readers to compare with are in hyperslab[bench]")
    matrix = gzip(tmp_path, 8_000_000)
    reader = ReaderProcess("h5py", "benchmarks.spark_reader") if ranks == 1 else MpiReader("MPI")
    try:
        for _ in range(2):
            answer = reader.ask(json.dumps({"path": str(matrix.path)}))
            assert answer["checksum"] == matrix.checksum
            assert [sum(phase[3] for phase in phases) for phases in answer["phases"]] == [
                matrix.nbytes // ranks
            ] * ranks
    finally:
        reader.close()
        reader._pipe(reader._process.stdout).close()
