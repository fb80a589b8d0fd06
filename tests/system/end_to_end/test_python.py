"""The Python API does what the commands do."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import hyperslab
from hyperslab.arrays import Array
from hyperslab.errors import UsageError
from hyperslab.testing import functions
from hyperslab.units import show_bytes
from tests.repetitions import few
from tests.system.end_to_end.command import (
    ANATOMICAL,
    EPI,
    FUNCTIONAL,
    LAYOUT,
    ROOT,
    assembled,
    image_of,
    only_output,
    real_values_of,
    save,
    succeed,
    values_of,
)

ENGINES = ["serial", "threads", "processes"]
SCRIPT = """
import sys
import numpy as np
import hyperslab

GAIN = 3

def stretched(block):
    return block * np.int16(GAIN)

source, out = sys.argv[1:]
pipeline = hyperslab.Pipeline(source).map(stretched).map(lambda block: block + np.int16(GAIN))
pipeline = pipeline.write(out, keep="volume")
result = hyperslab.run(pipeline, workers=1, rule=hyperslab.Rule("blocks", (6,)))
assert result.ok, result.failures
finish = lambda n: {"sum": n + GAIN}
total = hyperslab.Fold(lambda block: int(block.sum(dtype="i8")), lambda a, b: a + b, finish=finish)
print(hyperslab.run(hyperslab.Pipeline(source).reduce(total), workers=1).value["sum"])
"""


def test_importing_starts_nothing() -> None:
    heavy = "('numpy', 'h5py', 'nibabel', 'rich', 'typer')"
    code = (
        f"import sys, hyperslab; print(hyperslab.__version__, *(m for m in {heavy} if m in"
        " sys.modules))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed == f"{hyperslab.__version__}\n"
    assert all(hasattr(hyperslab, name) for name in hyperslab.__all__)
    assert {"Any", "TYPE_CHECKING", "import_module", "annotations"}.isdisjoint(dir(hyperslab))
    shown = (
        "import hyperslab; print(*(set(hyperslab.__all__) | {'__name__'}) - set(dir(hyperslab)))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", shown], capture_output=True, text=True, check=True
        ).stdout
        == "\n"
    )


@pytest.mark.parametrize("values", ["real", "stored"])
def test_open_is_like_numpy(values: Any) -> None:
    view = hyperslab.open(str(FUNCTIONAL), values=values)
    whole = real_values_of(FUNCTIONAL) if values == "real" else values_of(FUNCTIONAL)
    assert (view.shape, view.ndim, view.size) == (whole.shape, 4, whole.size)
    assert view.dtype == whole.dtype.newbyteorder("=")
    assert view.dims == ("x", "y", "z", "t")
    for index in (
        (slice(2, 9, 3), 4, ..., slice(None, None, -2)),
        (..., -1),
        (3, 4, 2, 19),
        slice(0, 0),
        ...,
    ):
        assert np.array_equal(view[index], whole[index])
    assert view[3, 4, 2, 19].shape == ()
    assert np.array_equal(np.asarray(view), whole)
    slab = hyperslab.Hyperslab((1, 2, 0, 3), (4, 5, 2, 6), (2, 3, 1, 2))
    out = np.empty(slab.count, view.dtype)
    assert view.read(slab, out=out) is out
    assert np.array_equal(out, whole[slab.slices()])


def test_open_a_dataset() -> None:
    view = hyperslab.open(f"{LAYOUT}/tfilters.h5::shuffle")
    with h5py.File(LAYOUT / "tfilters.h5") as file:
        assert np.array_equal(view[3:7, ::2], file["shuffle"][3:7, ::2])
    with pytest.raises(IndexError):
        view[20]
    with pytest.raises(hyperslab.HyperslabError, match="there is no such file"):
        hyperslab.open("/missing.nii")


def test_a_view_is_one_source_wherever_sources_are_taken(tmp_path: Path) -> None:
    view = hyperslab.open(ANATOMICAL)
    assert (
        len(hyperslab.Pipeline(view).inputs[""].sources)
        == len(hyperslab.gather([view]).sources)
        == 1
    )
    assert (
        len(hyperslab.convert(view, tmp_path / "dir", format="nii", engine="serial").outputs) == 1
    )
    twice = hyperslab.to_dask([hyperslab.open(ANATOMICAL, "stored")] * 2, axis=0)
    assert np.array_equal(twice.compute(), np.concatenate([values_of(ANATOMICAL)] * 2))
    with pytest.raises(UsageError, match="give values="):
        hyperslab.to_dask([view, hyperslab.open(ANATOMICAL, "stored")], axis=0)
    with h5py.File(LAYOUT / "tfilters.h5") as file:
        for take in (hyperslab.open, hyperslab.Pipeline, hyperslab.to_dask):
            with pytest.raises(
                UsageError, match=r"h5py.*Dataset is not a source: .*'PATH::DATASET', or its val"
            ):
                take(file["shuffle"])


def test_map_and_write(tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL).map(functions.add, {"k": 4}).write(tmp_path / "out")
    result = hyperslab.run(
        pipeline, engine="threads", workers=2, rule=hyperslab.Rule("blocks", (2, 3, 1))
    )
    assert result.ok
    assert result.state == "done"
    assert result.failures == []
    assert result.value is None
    assert result.tasks == len(result.outputs) == 6
    assert np.array_equal(
        assembled(tmp_path / "out", ANATOMICAL), values_of(ANATOMICAL) + np.int16(4)
    )
    output = result.outputs[0]
    assert isinstance(output, Path)
    assert output.nbytes == output.stat().st_size > 1000
    assert repr(output) == f"<hyperslab.Output: {output}, {show_bytes(output.nbytes)}>"
    assert pickle.loads(pickle.dumps(output)) == output == Path(str(output))
    kinds = {span.kind for span in result.trace.spans}
    assert {"open", "read", "compute", "write"} <= kinds
    assert {span.task for span in result.trace.spans} == set(range(6))
    assert len(result.trace.slots) == result.summary.slots == 2
    assert result.summary.tasks == 6
    assert 0 < result.summary.read_s < result.summary.makespan_s * 2
    assert json.loads((result.folder / "summary.json").read_text())["tasks"] == 6


def test_the_command_and_the_pipeline_write_the_same(tmp_path: Path) -> None:
    target = f"{functions.__name__}:add"
    settings: dict[str, Any] = {"engine": "threads", "workers": 1}
    succeed(
        "run",
        target,
        EPI,
        "-o",
        tmp_path / "a",
        "-p",
        "k=2",
        "--axes-whole",
        "3",
        "--blocks",
        "3",
        "--values",
        "stored",
        "--engine",
        "threads",
    )
    pipeline = (
        hyperslab.Pipeline(str(EPI), values="stored").map(target, {"k": 2}).write(tmp_path / "b")
    )
    result = hyperslab.run(pipeline, **settings, rule=hyperslab.Rule("blocks", (3,), (3,)))
    assert [path.name for path in result.outputs] == sorted(
        p.name for p in (tmp_path / "a").glob("*.nii")
    )
    assert all(
        path.read_bytes() == (tmp_path / "a" / path.name).read_bytes() for path in result.outputs
    )


def test_reduce(tmp_path: Path) -> None:
    fold = hyperslab.Fold(
        lift=lambda block, low=0: int((block > low).sum()), merge=lambda a, b: a + b
    )
    result = hyperslab.run(
        hyperslab.Pipeline(ANATOMICAL).reduce(fold, {"low": 9000}),
        engine="threads",
        workers=2,
        out=tmp_path / "out",
        rule=hyperslab.Rule("slabs"),
    )
    assert result.value == int((values_of(ANATOMICAL) > 9000).sum())
    assert result.outputs == [tmp_path / "out" / "result.json"]
    assert result.tasks == 25


def test_maps_before_a_reduction_and_several_inputs(tmp_path: Path) -> None:
    values = np.arange(4 * 5 * 6, dtype=np.int32).reshape(4, 5, 6)
    mask = values % 3
    pipeline = (
        hyperslab.Pipeline(values, mask=mask)
        .map(functions.masked)
        .map(lambda block, mask: block + mask)
    )
    result = hyperslab.run(pipeline.reduce(functions.TOTAL), engine="serial", out=tmp_path)
    assert result.value == int((values * (mask != 0) + mask).sum())


@pytest.mark.parametrize("engine", few(ENGINES[2:], ENGINES, "files are alike: EngineTests"))
def test_an_array_in_memory(tmp_path: Path, engine: str) -> None:
    values: Array = np.random.default_rng(1).normal(size=(20, 10, 8))[::2, ::-1]
    pipeline = (
        hyperslab.Pipeline(values)
        .map(functions.add, {"k": 1})
        .write(tmp_path / "out", keep="volume")
    )
    result = hyperslab.run(pipeline, engine=engine, rule=hyperslab.Rule("block-shape", (3, 4, 8)))
    assert np.array_equal(values_of(result.outputs[0]), values + 1)
    assert [output.name for output in result.outputs] == ["array.nii"]


def test_arrays_in_memory_name_their_files() -> None:
    one = np.zeros((2, 2))
    assert [whole.name for whole in hyperslab.gather([one, one]).wholes] == ["array_0", "array_1"]


def test_an_output_that_is_a_store_is_as_large_as_its_files(tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL).map(functions.add).write(tmp_path / "out.zarr")
    (output,) = hyperslab.run(pipeline, engine="serial", report=False).outputs
    files = [path for path in output.rglob("*") if path.is_file()]
    assert output.nbytes == sum(path.stat().st_size for path in files) > 1000
    shutil.rmtree(output)
    assert repr(output).endswith("out.zarr, gone>")


def test_what_fails_is_in_the_result(tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL).map(
        functions.misbehave, {"deed": "raise", "at": (0, 0, 5)}
    )
    result = hyperslab.run(
        pipeline.write(tmp_path / "out"),
        engine="threads",
        retries=2,
        rule=hyperslab.Rule("blocks", (1, 1, 5)),
        check=False,
    )
    assert not result.ok
    (failed,) = result.failures
    assert failed.attempts == 3
    assert failed.task == f"{ANATOMICAL}[0:33, 0:41, 5:10]"
    assert failed.error == "ValueError"
    assert "functions.py" in failed.traceback
    reason = "ValueError: this block is not to my liking"
    assert repr(failed) == f"<hyperslab.Failed: {failed.task}: {reason} (3 attempts)>"
    assert len(result.outputs) == 4
    with pytest.raises(hyperslab.HyperslabError, match="holds an earlier run"):
        hyperslab.run(pipeline.write(tmp_path / "out"))


def test_the_words_of_the_command_line_are_those_of_python(tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL).map("increment")
    ways: list[dict[str, Any]] = [
        {"blocks": "3x3x3"},
        {"blocks": (3, 3, 3)},
        {"block_shape": (11, 14, 9)},
    ]
    for number, asked in enumerate(ways):
        result = hyperslab.run(
            pipeline.write(tmp_path / str(number)),
            engine="serial",
            memory="1GB",
            task_timeout=None,
            report=False,
            **asked,
        )
        assert result.tasks == 27
        assert np.array_equal(
            assembled(tmp_path / str(number), ANATOMICAL), values_of(ANATOMICAL) + 1
        )
    options = hyperslab.Options(partition="bytes=1MB", axes_whole=2, memory=10**9)
    assert options.rule == hyperslab.Rule("bytes", (10**6,), (2,))
    assert options.memory_bytes == 10**9


def test_computing_gives_an_array() -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL)
    found = pipeline.map(lambda block: block * np.int16(3)).compute(engine="serial", blocks=5)
    assert found.dtype == np.int16
    assert np.array_equal(found, values_of(ANATOMICAL) * np.int16(3))
    both = hyperslab.Pipeline([ANATOMICAL, ANATOMICAL]).compute(engine="serial")
    assert [np.array_equal(each, values_of(ANATOMICAL)) for each in both] == [True, True]
    assert pipeline.reduce("stats").compute(engine="serial").max == values_of(ANATOMICAL).max()
    real = hyperslab.Pipeline(FUNCTIONAL).compute(engine="serial")
    assert np.array_equal(real, real_values_of(FUNCTIONAL))


def test_an_array_that_is_returned_by_name_is_computed_by_name() -> None:
    """Also a single one: what a function returns decides, not how many it returns."""
    pipeline = hyperslab.Pipeline(np.arange(6)).map(lambda block: {"twice": block * 2})
    computed = pipeline.compute(engine="serial")
    assert list(computed) == ["twice"]
    np.testing.assert_array_equal(computed["twice"], np.arange(6) * 2)


def test_several_arrays_are_computed_by_name() -> None:
    values = hyperslab.open(FUNCTIONAL)[...]
    source = hyperslab.Pipeline(FUNCTIONAL)
    named = source.map(lambda block: {"low": block.min(axis=3), "high": block.max(axis=3)})
    found = named.compute(engine="serial")
    assert list(found) == ["low", "high"]
    assert np.array_equal(found["low"], values.min(axis=3))
    assert np.array_equal(found["high"], values.max(axis=3))
    listed = source.map(lambda block: [block.min(axis=3), block.max(axis=3)])
    with pytest.raises(hyperslab.TasksFailed, match="returned a list of arrays: return a tuple"):
        listed.compute(engine="serial")


def test_what_a_notebook_shows_of_them_is_one_line(tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL).map("smooth", {"sigma": 1.0}).write(tmp_path / "out")
    prepared = hyperslab.prepare(pipeline, hyperslab.Options(engine="serial"))
    result = hyperslab.run(pipeline, engine="serial", report=False)
    things: list[object] = [pipeline, pipeline.source, pipeline.steps[0].ref, prepared]
    things += [prepared.plan, result, result.summary, result.trace, hyperslab.open(ANATOMICAL)]
    for thing in things:
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 300, repr(thing)


def test_a_plan_without_a_run(tmp_path: Path) -> None:
    prepared = hyperslab.prepare(
        hyperslab.Pipeline(ANATOMICAL).write(tmp_path / "out"), hyperslab.Options(workers=1)
    )
    assert prepared.needs.tasks == 1
    assert prepared.needs.bytes_read == 67650
    assert not (tmp_path / "out").exists()


def test_a_script_without_a_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, script, ANATOMICAL, tmp_path / "out"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    whole = values_of(ANATOMICAL)
    assert np.array_equal(
        values_of(only_output(tmp_path / "out")), whole * np.int16(3) + np.int16(3)
    )
    assert done.stdout == f"{whole.sum(dtype=np.int64) + 3}\n"


def test_a_mosaic_and_a_concatenation_by_name(tmp_path: Path) -> None:
    for number in range(3):
        save(tmp_path / f"{number}.nii", np.full((2, 2, 2), number, np.int16))
    joined = hyperslab.gather([tmp_path / f"{n}.nii" for n in range(3)], "concatenated", 2)
    result = hyperslab.run(
        hyperslab.Pipeline(joined).reduce(functions.TOTAL), engine="serial", out=tmp_path / "out"
    )
    assert result.value == (0 + 1 + 2) * 8
    assert joined.wholes[0].shape == (2, 2, 6)
    assert len(joined) == 1
    with pytest.raises(UsageError, match=r"this array lies in 3 files: .* hyperslab\.to_dask"):
        hyperslab.open(joined)


def test_what_was_gathered_is_a_sequence_of_arrays(tmp_path: Path) -> None:
    for number in range(4):
        save(tmp_path / f"{number}.nii", np.full((2, 2, 2), number, np.int16))
    found = hyperslab.gather(tmp_path)
    assert len(found) == 4
    assert [hyperslab.open(one)[0, 0, 0] for one in found] == [0, 1, 2, 3]
    assert hyperslab.open(found[-1])[1, 1, 1] == 3
    total = hyperslab.Pipeline(found[1:3]).reduce(functions.TOTAL).compute(engine="serial")
    assert total == (1 + 2) * 8
    assert [whole.name for whole in found[1:3].wholes] == ["1", "2"]
    with pytest.raises(IndexError):
        found[4]
    with pytest.raises(IndexError, match="no array in this slice"):
        found[4:]
    with pytest.raises(TypeError, match=r"by the number of an array.*hyperslab\.to_dask"):
        found[0, 1]  # type: ignore[index]
    with pytest.raises(UsageError, match=r"4 arrays: open one of them, as in hyperslab\.open"):
        hyperslab.open(found)


def test_the_example_functions_work_from_python(tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL).reduce(
        f"{ROOT}/examples/brighten.py:head_volume", {"threshold": 5000}
    )
    result = hyperslab.run(pipeline, engine="serial", out=tmp_path / "out")
    voxels = int((np.asarray(image_of(ANATOMICAL).dataobj) > 5000).sum())
    assert result.value == {"voxels": voxels, "millilitres": voxels / 1000}
