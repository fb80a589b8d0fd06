"""EngineTests: what every engine has to keep, tested through the driver on real files, with
`serial` as the reference.

A subclass is one line per engine: its name, how many workers and threads to use, and real images if
there are any.
"""

from __future__ import annotations

import shutil
import threading
from collections import defaultdict
from collections.abc import Collection, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from hyperslab import formats, workloads
from hyperslab.arrays.partition import Rule
from hyperslab.arrays.slab import Hyperslab
from hyperslab.driver import run as driver
from hyperslab.driver import verification
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.driver.result import Result
from hyperslab.errors import RunStopped, UsageError
from hyperslab.plan.journal import Tail
from hyperslab.plan.pipeline import Pipeline
from hyperslab.report.progress import Quiet
from hyperslab.testing import functions
from hyperslab.testing.cases import BY_DEED, RULES, WAYS
from hyperslab.testing.commands import CommandTests
from hyperslab.testing.contents import (
    AFFINE,
    affine_of,
    content_of,
    only_output,
    reference_values,
    require_match,
    save,
    values_of,
)
from hyperslab.testing.functions import executions
from hyperslab.testing.holding import held

MODULE = functions.__name__
SHAPE = (24, 20, 18)
EIGHT = Rule("block-shape", (12, 10, 9))
"Cuts SHAPE into eight blocks; LAST_BLOCK is where the last one starts."
LAST_BLOCK = (12, 10, 9)
MAP_PHASES = ["open", "read", "compute", "write"]


class InterruptAfter(Quiet):
    """Progress that ends the run from inside, as Ctrl-C or `hyperslab cancel` do from outside."""

    def __init__(self, tasks: int, cancel: Path | None = None) -> None:
        self._left, self._cancel = tasks, cancel

    def advance(self, nbytes: int) -> None:
        self._left -= 1
        if self._left == 0 and self._cancel is not None:
            RunDirectory(self._cancel).ask_to_cancel()
        elif self._left == 0:
            raise KeyboardInterrupt


class EngineTests(CommandTests):
    """Conformance of an engine. A subclass sets `engine`, and what follows where the engine
    differs.
    """

    engine: ClassVar[str]
    slots: ClassVar[tuple[int, int]] = (2, 1)
    "Workers and threads."
    connect: str = ""
    "A cluster of these slots that runs already."
    stops_late_tasks: ClassVar[bool] = False
    "Whether it honours a time limit; one that cannot has to refuse it."
    images: ClassVar[Sequence[str]] = ()
    "Real images: PATH of NIfTI files or PATH::DATASET of numbers; (): one that the suite makes."
    every: ClassVar[Collection[str]] = ("crew",)
    "Keys of WAYS that are tried in every way; the others depend little on the engine."

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Try each test in every way, or in a few."""
        for name, (every, few) in WAYS.items():
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, every if name in self.every else few)

    @pytest.fixture
    def image(self, tmp_path: Path) -> str:
        """A uint16 NIfTI image of SHAPE."""
        path = tmp_path / "in" / "image.nii"
        path.parent.mkdir()
        values = np.random.default_rng(1).integers(0, 2**16 - 1, SHAPE, dtype=np.uint16)
        save(values, path)
        return str(path)

    def run(self, pipeline: Pipeline, **options: Any) -> Result:
        """Run a pipeline on the engine under test, without its page unless that is asked for."""
        settings = {**self._place(), "report": False, "check": False, **options}
        return driver.run(pipeline, **settings)

    def _place(self) -> dict[str, Any]:
        if self.connect:
            return {"engine": self.engine, "connect": self.connect}
        workers, threads = self.slots
        return {"engine": self.engine, "workers": workers, "threads": threads}

    def volume(self, pipeline: Pipeline, folder: Path, **options: Any) -> Path:
        """Write one file on the engine under test."""
        result = self.run(pipeline.write(folder, keep="volume"), **options)
        return only_output(result)

    def test_a_volume_is_the_same_whatever_the_partition(
        self, image: str, tmp_path: Path, rule: str
    ) -> None:
        pipeline = Pipeline(image).map(functions.add, {"k": 3})
        plain = pipeline.write(tmp_path / "reference", keep="volume")
        reference = only_output(driver.run(plain, engine="serial"))
        granularity = "fused"
        if RULES[rule].value:
            granularity = "stepwise"
        out = self.volume(pipeline, tmp_path / "out", rule=RULES[rule], granularity=granularity)
        assert out.read_bytes() == reference.read_bytes()
        assert np.array_equal(values_of(reference), values_of(image) + np.uint16(3))
        assert np.allclose(affine_of(reference), AFFINE, atol=1e-6)

    def test_blocks_are_the_same_whatever_the_workers(
        self, image: str, tmp_path: Path, format: str, crew: str
    ) -> None:
        pipeline = Pipeline(image).map(functions.add).map(functions.add, dtype="uint16")

        def written(folder: str, **options: Any) -> dict[str, bytes]:
            result = driver.run(pipeline.write(tmp_path / folder, format), rule=EIGHT, **options)
            assert result.ok, result.failures
            return {path.name: content_of(path) for path in result.outputs}

        reference = written("reference", engine="serial")
        assert len(reference) == 8
        assert written("other", **self._crew(crew)) == reference

    def _crew(self, crew: str) -> dict[str, Any]:
        """The usual workers, or a single one, or one more, which do single steps."""
        place = self._place()
        if crew == "more":
            place["granularity"] = "stepwise"
        if self.slots == (1, 1) or self.connect or crew == "usual":
            return place
        if crew == "alone":
            return {**place, "workers": 1, "threads": 1}
        return {**place, "workers": 3}

    def test_a_function_may_return_several_arrays_of_other_axes(
        self, image: str, tmp_path: Path
    ) -> None:
        said = {"low": {}, "high": {"dtype": "float64"}}
        pipeline = Pipeline(image).map(functions.add)
        pipeline = pipeline.map(functions.extremes, outputs=said, drop_axis=2)
        result = self.run(
            pipeline.write(tmp_path / "out"), rule=Rule("blocks", (4,)), granularity="stepwise"
        )
        assert result.ok, result.failures
        high, low = result.outputs
        values = values_of(image) + np.uint16(1)
        assert np.array_equal(values_of(low), values.min(axis=2))
        assert np.array_equal(values_of(high), values.max(axis=2).astype(np.float64))
        assert all(
            one.problem is None for one in verification.verify(RunDirectory(tmp_path / "out"))
        )

    def test_a_block_lies_where_it_lay(self, image: str, tmp_path: Path) -> None:
        result = self.run(Pipeline(image).write(tmp_path / "out"), rule=EIGHT)
        whole = values_of(image)
        size = 0
        for path in result.outputs:
            origin = np.linalg.inv(AFFINE) @ affine_of(path) @ [0, 0, 0, 1]
            corner = np.rint(origin[:3]).astype(int)
            assert np.allclose(origin[:3], corner, atol=1e-4)
            block = values_of(path)
            size += block.size
            box = Hyperslab(tuple(corner), block.shape)
            assert np.array_equal(block, whole[box.slices()])
        assert size == whole.size

    def test_real_images(self, image: str, tmp_path: Path) -> None:
        for number, url in enumerate(self.images or (image,)):
            source = formats.open_source(url)
            pipeline = Pipeline(url).map(functions.add, {"k": 2})
            path = self.volume(pipeline, tmp_path / str(number), rule=Rule("blocks", (5,)))
            expected = reference_values(url)
            assert np.array_equal(values_of(path), expected + expected.dtype.type(2)), url
            affine = source.header.affine
            if affine is not None:
                assert np.allclose(affine_of(path), affine, rtol=1e-6, atol=1e-5), url

    def test_a_halo_gives_what_the_whole_gives(
        self, image: str, tmp_path: Path, boundary: Any
    ) -> None:
        from scipy import ndimage

        pipeline = Pipeline(image, boundary=boundary)
        pipeline = pipeline.map(functions.neighbourhood, dtype="int64", halo=1)
        path = self.volume(pipeline, tmp_path / "out", rule=Rule("blocks", (4, 3, 2)))
        whole = values_of(image).astype(np.int64)
        ones = np.ones((3, 3, 3), np.int64)
        expected = ndimage.convolve(whole, ones, mode=boundary)
        assert np.array_equal(values_of(path), expected)

    def test_chunks_and_several_inputs(self, image: str, tmp_path: Path) -> None:
        import h5py

        whole = values_of(image)
        mask = np.indices(SHAPE).sum(0) % 3 == 0
        both = tmp_path / "in" / "both.h5"
        gzip = {"compression": "gzip", "shuffle": True}
        with h5py.File(both, "w") as file:
            file.create_dataset("image", data=whole, chunks=(8, 7, 6), **gzip)
            file.create_dataset("mask", data=mask.astype(np.uint8), chunks=(5, 5, 5))
        pipeline = Pipeline(f"{both}::image", mask=f"{both}::mask").map(functions.masked)
        path = self.volume(pipeline, tmp_path / "out", rule=Rule("chunks"))
        assert np.array_equal(values_of(path), np.where(mask, whole, 0))

    def test_compressed_chunks_are_read_once_and_no_more(self, tmp_path: Path) -> None:
        import h5py

        values = np.random.default_rng(3).integers(0, 500, (32, 24, 16), dtype=np.uint16)
        chunks = (8, 12, 16)
        gzip = {"compression": "gzip", "shuffle": True}
        packed = tmp_path / "packed.h5"
        with h5py.File(packed, "w") as file:
            made = file.create_dataset("data", data=values, chunks=chunks, **gzip)
            stored = made.id.get_storage_size()
        pipeline = Pipeline(str(packed)).map(functions.add, {"k": 3})
        pipeline = pipeline.write(tmp_path / "out", keep="volume")
        result = self.run(pipeline, rule=Rule("block-shape", chunks))
        assert np.array_equal(values_of(only_output(result)), values + np.uint16(3))
        assert _bytes_read(result) == stored

    def test_a_function_is_told_its_slab(self, image: str, tmp_path: Path) -> None:
        pipeline = Pipeline(image).map(functions.positions, {"shape": SHAPE}, dtype="int64")
        path = self.volume(pipeline, tmp_path / "out", rule=RULES["grid"])
        expected = np.arange(np.prod(SHAPE)).reshape(SHAPE)
        assert np.array_equal(values_of(path), expected)

    def test_reductions_are_exact_for_integers(self, image: str, tmp_path: Path, cut: str) -> None:
        expected = int(values_of(image).sum(dtype=np.int64))
        pipeline = Pipeline(image).reduce(functions.TOTAL)
        result = self.run(pipeline, rule=RULES[cut], out=tmp_path / "out")
        assert result.state == "done"
        assert result.value == expected
        assert (tmp_path / "out" / "result.json").read_text() == str(expected)

    def test_reductions_of_floats_keep_their_bound(self, tmp_path: Path) -> None:
        values = np.random.default_rng(2).standard_normal(SHAPE) * 1e6
        save(values, tmp_path / "floats.nii")
        exact = float(sum(map(Fraction, values.flat)))
        bound = values.size * np.finfo(float).eps * np.abs(values).sum()
        source = Pipeline(str(tmp_path / "floats.nii"))
        total = source.reduce(functions.FLOAT_TOTAL)
        stats = workloads.build("stats", source, {})
        for name in ("bytes", "grid"):
            plain = self.run(total, rule=RULES[name], out=tmp_path / f"plain-{name}")
            assert abs(plain.value - exact) <= bound
            result = self.run(stats, rule=RULES[name], out=tmp_path / f"stats-{name}")
            assert result.value.sum == exact

    def test_folds_with_a_prior(self, tmp_path: Path) -> None:
        values = np.random.default_rng(3).standard_normal(SHAPE)
        save(values, tmp_path / "floats.nii")
        pipeline = workloads.build(
            "histogram", Pipeline(str(tmp_path / "floats.nii")), {"bins": 64}
        )
        result = self.run(pipeline, rule=EIGHT, out=tmp_path / "out")
        counts, edges = np.histogram(values, 64)
        assert np.array_equal(result.value.counts, counts)
        assert np.allclose(result.value.edges, edges)

    @pytest.mark.parametrize("granularity", ["fused", "stepwise"])
    def test_every_phase_is_in_the_trace(
        self, image: str, tmp_path: Path, granularity: Any
    ) -> None:
        pipeline = Pipeline(image).map(functions.add).write(tmp_path / "out")
        result = self.run(pipeline, rule=EIGHT, granularity=granularity, report=True)
        assert result.page is not None
        meta = result.trace.meta
        kinds = defaultdict(list)
        ends: dict[str, int] = {}
        for s in sorted(result.trace.spans, key=lambda s: s.start_ns):
            kinds[s.task].append(s.kind)
            assert s.slot in result.trace.slots
            assert ends.get(s.slot, meta["start_ns"]) <= s.start_ns <= s.end_ns <= meta["end_ns"]
            ends[s.slot] = s.end_ns
            if s.kind in ("read", "write"):
                assert s.nbytes > 0
            assert not s.lost
        assert kinds == dict.fromkeys(range(8), MAP_PHASES)
        assert _bytes_read(result) >= np.prod(SHAPE) * 2

    def test_idle_slots_are_in_the_trace(self, image: str, tmp_path: Path) -> None:
        pipeline = Pipeline(image).write(tmp_path / "out")
        trace = self.run(pipeline, rule=Rule("blocks", (1,))).trace
        workers, threads = self.slots
        assert len(set(trace.slots)) == workers * threads
        used = {s.slot for s in trace.spans}
        assert len(used) == 1

    def test_the_journal_and_the_manifest_are_complete(self, image: str, tmp_path: Path) -> None:
        pipeline = Pipeline(image).map(functions.add).write(tmp_path / "out")
        result = self.run(pipeline, rule=EIGHT)
        recorded = [outcome.task for outcome in Tail(result.folder).poll()]
        assert sorted(recorded) == list(range(8))
        directory = RunDirectory(tmp_path / "out")
        checked = {one.name: one.problem for one in verification.verify(directory)}
        names = [path.name for path in result.outputs]
        assert checked == dict.fromkeys(names, None)
        assert len(checked) == 8

    def test_a_bad_block_fails_alone(self, image: str, tmp_path: Path, deed: str) -> None:
        message, attempts = BY_DEED[deed]
        out = tmp_path / "out"
        pipeline = Pipeline(image).map(functions.misbehave, {"deed": deed, "at": LAST_BLOCK})
        result = self.run(pipeline.write(out), rule=EIGHT, retries=1)
        assert result.state == "failed"
        (failed,) = result.failures
        assert failed.attempts == attempts
        assert failed.task == f"{image}[12:24, 10:20, 9:18]"
        require_match(message, failed.message)
        assert len(result.outputs) == 7
        assert len(list(out.glob("*.nii"))) == 7
        assert list(out.glob(".*.part")) == []

    def test_a_failure_that_passes_is_tried_again(self, image: str, tmp_path: Path) -> None:
        bad = {"deed": "raise", "at": LAST_BLOCK, "once": str(tmp_path / "marker")}
        pipeline = Pipeline(image).map(functions.misbehave, bad)
        result = self.run(pipeline.write(tmp_path / "out"), rule=EIGHT)
        assert result.ok
        assert len(result.outputs) == 8
        lost = {(s.task, s.attempt) for s in result.trace.spans if s.lost}
        assert lost == {(7, 0)}

    def test_a_time_limit_is_honoured_or_refused(self, image: str, tmp_path: Path) -> None:
        deed = "raise"
        if self.stops_late_tasks:
            deed = "hang"
        pipeline = Pipeline(image).map(functions.misbehave, {"deed": deed, "at": LAST_BLOCK})
        pipeline = pipeline.write(tmp_path / "out")
        options: dict[str, Any] = {"rule": EIGHT, "task_timeout_s": 4.0, "retries": 0}
        if not self.stops_late_tasks:
            with pytest.raises(UsageError, match=r"task_timeout needs engine=.processes"):
                self.run(pipeline, **options)
            assert not (tmp_path / "out").exists(), "a refused run leaves nothing behind"
            return
        result = self.run(pipeline, **options)
        (failed,) = result.failures
        require_match("ran longer than task_timeout=4 s", failed.message)
        assert len(result.outputs) == 7

    def test_what_cannot_be_sent_is_refused_before_the_start(
        self, image: str, tmp_path: Path
    ) -> None:
        lock = threading.Lock()
        source = Pipeline(image)
        with pytest.raises(UsageError, match="cannot be sent to a worker"):
            self.run(source.map(lambda block: (block, lock)[0]).write(tmp_path / "out"))
        with pytest.raises(UsageError, match="cannot be sent to a worker"):
            self.run(source.map(functions.add, {"k": lock}).write(tmp_path / "out"))
        assert not (tmp_path / "out").exists()

    def test_a_fold_that_fails_says_so(self, image: str, tmp_path: Path) -> None:
        try:  # a slot that merges as it goes fails a task, an engine's own tree the run
            result = self.run(
                Pipeline(image).reduce(functions.UNMERGEABLE),
                rule=Rule("slabs"),
                out=tmp_path / "merge",
            )
        except RunStopped as reason:
            require_match(
                "merge or finish failed: ValueError: this value is not to my liking", str(reason)
            )
        else:
            assert (result.state, result.value) == ("failed", None)
            require_match(
                "merging failed: ValueError: this value is not to my liking",
                result.failures[0].message,
            )
        with pytest.raises(RunStopped, match="this value is not to my liking"):
            self.run(
                Pipeline(image).reduce(functions.UNFINISHABLE), rule=EIGHT, out=tmp_path / "finish"
            )

    def test_a_resumed_run_repeats_only_what_is_missing(
        self, image: str, tmp_path: Path, end: str
    ) -> None:
        early, _, kind = end.rpartition("-")
        reducing = kind == "reduce"
        runs = tmp_path / "runs"
        out = tmp_path / "out"
        runs.mkdir()
        params = {
            "folder": str(runs),
            "at": LAST_BLOCK,
            "seconds": 0.06 * self.slots[0] * self.slots[1],
        }
        pipeline = Pipeline(image)
        if reducing:
            pipeline = pipeline.reduce(f"{MODULE}:COUNTED_TOTAL", params)
        else:
            pipeline = pipeline.map(functions.counted, params).write(out, keep="volume")
        recorded = self._end_early(pipeline, early, runs, out)
        before = executions(runs)
        result = self.run(pipeline, rule=Rule("block-shape", (6, 10, 9)), out=out, resume=True)
        assert result.state == "done"
        repeated = sum(executions(runs).values()) - sum(before.values())
        # Workers may have recorded more since: a partial is saved before the lines of its tasks,
        # and a task that was under way when the run ended may have come to its end.
        assert repeated <= 16 - recorded
        if reducing:
            assert result.value == int(values_of(image).sum(dtype=np.int64))
        else:
            assert np.array_equal(values_of(only_output(result)), values_of(image) + np.uint16(1))

    def _end_early(self, pipeline: Pipeline, end: str, runs: Path, out: Path) -> int:
        """Run until something ends it; returns how many tasks its records hold."""
        options: dict[str, Any] = {
            "rule": Rule("block-shape", (6, 10, 9)),
            "out": out,
            "retries": 0,
        }
        if end == "failure":
            (runs / "broken").touch()
            assert self.run(pipeline, **options).state == "failed"
            (runs / "broken").unlink()
        elif end == "ctrl-c":
            with pytest.raises(KeyboardInterrupt), held(runs):
                self.run(pipeline, progress=InterruptAfter(5), **options)
        else:
            with pytest.raises(RunStopped, match="cancelled"), held(runs):
                self.run(pipeline, progress=InterruptAfter(5, cancel=out), **options)
        done = prepare(pipeline, Options(rule=options["rule"], resume=True), out).done
        assert 5 <= len(done) < 16
        return len(done)

    def test_a_second_run_does_not_touch_the_first(self, image: str, tmp_path: Path) -> None:
        pipeline = Pipeline(image).map(functions.add).write(tmp_path / "out")
        first = self.run(pipeline, rule=EIGHT)
        with pytest.raises(UsageError, match="add resume=True"):
            self.run(pipeline, rule=EIGHT)
        times = _times(first)
        again = self.run(pipeline, rule=EIGHT, resume=True)
        assert again.outputs == first.outputs
        assert _times(again) == times
        shutil.rmtree(tmp_path / "out")
        assert self.run(pipeline, rule=EIGHT).ok


def _bytes_read(result: Result) -> int:
    return sum(s.nbytes for s in result.trace.spans if s.kind == "read")


def _times(result: Result) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in result.outputs}
