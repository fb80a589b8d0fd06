"""Compiling pipelines: what decides the fingerprint, what a task is said to need, what is refused,
and at what cost.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import h5py
import nibabel as nib
import numpy as np
import pytest

import hyperslab
from hyperslab import formats, workloads
from hyperslab.apps.conversion import Wanted, conversion
from hyperslab.arrays import Array
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.partition import Rule
from hyperslab.arrays.sets import concatenated, independent
from hyperslab.blocks.gathering import gather
from hyperslab.blocks.writing import places
from hyperslab.driver import run
from hyperslab.driver.admission import JOURNAL_BYTES_PER_TASK, admit, examine
from hyperslab.errors import DoesNotFit, HyperslabError, UsageError
from hyperslab.formats.facts import Suffix
from hyperslab.plan.compile import Budget, Plan, compile_plan
from hyperslab.plan.pipeline import Pipeline

BUDGET = Budget(2**30, 2)


def save(path: Path, values: Array, slope: float | None = None) -> str:
    image = nib.Nifti1Image(values, np.diag([2.0, 2.0, 2.0, 1.0]))  # type: ignore[no-untyped-call]
    if slope is not None:
        image.header.set_slope_inter(slope, 1.0)  # type: ignore[no-untyped-call]
    nib.save(image, path)
    return str(path)


@pytest.fixture
def volume(tmp_path: Path) -> str:
    return save(tmp_path / "volume.nii", np.arange(4096, dtype=np.int16).reshape(16, 16, 16))


def add(block: Array, amount: int = 1) -> Array:
    return block + np.int16(amount)


def compiled(
    source: str, amount: int = 1, rule: Rule | None = None, budget: Budget = BUDGET, **options: str
) -> Plan:
    pipeline = Pipeline(source, **options).map(add, {"amount": amount}).write("out")  # type: ignore[arg-type]
    return compile_plan(pipeline, rule or Rule("blocks", (2, 2, 2)), budget)


def test_the_fingerprint_is_of_what_decides_the_results(volume: str) -> None:
    first = compiled(volume).fingerprint
    assert compiled(volume).fingerprint == first
    assert compiled(volume, budget=Budget(2**28, 7)).fingerprint == first, "not of memory and slots"
    others = [
        compiled(volume, amount=2),
        compiled(volume, rule=Rule("blocks", (2, 2, 1))),
        compiled(volume, values="stored"),
        compiled(volume, boundary="nearest"),
        compiled(volume, amount=np.ones(3000)),  # type: ignore[arg-type]
        compiled(volume, amount=np.append(np.ones(2999), 2)),  # type: ignore[arg-type]
    ]
    assert len({first, *(plan.fingerprint for plan in others)}) == len(others) + 1


def test_the_names_of_the_inputs_are_part_of_the_fingerprint(volume: str, tmp_path: Path) -> None:
    other = save(tmp_path / "other.nii", np.zeros((16, 16, 16), np.int16))

    def joined(block: Array, a: Array, c: Array) -> Array:
        return block + a + c

    one = Pipeline(volume, a=volume, c=other).map(joined).write("out")
    another = Pipeline(volume, c=volume, a=other).map(joined).write("out")
    prints = {compile_plan(pipeline, Rule(), BUDGET).fingerprint for pipeline in (one, another)}
    assert len(prints) == 2


def test_a_module_that_was_edited_after_planning_is_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "edited_later.py").write_text("def f(block):\n    return block\n")
    program = f"""
import pickle, sys
sys.path.insert(0, {str(tmp_path)!r})
from hyperslab.plan.function import refer
pickle.dump(refer("edited_later:f"), sys.stdout.buffer)
"""
    sent = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    (tmp_path / "edited_later.py").write_text("def f(block):\n    return block + 1\n")
    with pytest.raises(HyperslabError, match="edited after the run was planned"):
        pickle.loads(sent).load()


def test_parameters_have_the_same_digest_in_every_process() -> None:
    program = (
        "from hyperslab.plan.function import digest_of; print(digest_of({'a': {'x', 'y', 'z'}, 'b':"
        " [1.5, None]}))"
    )
    prints = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(prints) == 1


def test_edited_code_is_told_from_the_code_before(volume: str, tmp_path: Path) -> None:
    script, neighbour = tmp_path / "mine.py", tmp_path / "beside.py"
    codes = []
    for line, more in (
        ("return block", "1"),
        ("return block  # edited", "1"),
        ("return block  # edited", "2"),
    ):
        neighbour.write_text(f"AMOUNT = {more}\n")
        script.write_text(f"import beside\n\n\ndef f(block):\n    {line}\n")
        program = f"""
from hyperslab.arrays.partition import Rule
from hyperslab.plan.pipeline import Pipeline
from hyperslab.plan.compile import Budget, compile_plan
plan = compile_plan(Pipeline({volume!r}).map("{script}:f").write("out"), Rule(), Budget(2**30, 2))
print(plan.fingerprint, plan.code)
"""
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        codes.append(done.stdout.split())
    assert len({fingerprint for fingerprint, _ in codes}) == 1
    assert len({code for _, code in codes}) == 3


def test_a_halo_and_a_scale_in_one_pipeline_are_refused(volume: str) -> None:
    for first, second in (("smooth", "downsample"), ("downsample", "smooth")):
        with pytest.raises(UsageError, match="both a halo and a scale"):
            workloads.build(second, workloads.build(first, Pipeline(volume), {}), {})


def test_a_step_without_a_halo_after_one_that_cut_it_off_is_fine_and_before_one_is_not(
    volume: str, tmp_path: Path
) -> None:
    def trim(block: Array) -> Array:
        return block[1:-1, 1:-1, 1:-1]

    def same(block: Array) -> Array:
        return block

    expected = np.asanyarray(nib.load(volume).dataobj)  # type: ignore[attr-defined]
    rule = Rule("blocks", (2, 1, 1))
    good = Pipeline(volume).map(trim, halo=1).map(same).write(tmp_path / "good", keep="volume")
    result = hyperslab.run(good, engine="serial", rule=rule)
    assert np.array_equal(hyperslab.open(str(result.outputs[0]))[...], expected)
    early = (
        Pipeline(volume)
        .map(lambda b: b[2:-2, 2:-2, 2:-2], halo=1)
        .map(same, halo=1)
        .write(tmp_path / "early")
    )
    result = hyperslab.run(early, engine="serial", rule=rule, check=False)
    assert result.state == "failed"
    assert "returned a block of shape" in result.failures[0].message


def test_independent_sources_may_differ_in_dtype_unless_they_are_merged(tmp_path: Path) -> None:
    paths = [
        save(tmp_path / f"{name}.nii", np.ones((4, 4, 4), name)) for name in ("int16", "float32")
    ]
    result = hyperslab.run(
        Pipeline(paths).map(np.negative).write(tmp_path / "out"), engine="serial"
    )
    assert [hyperslab.open(str(path)).dtype for path in result.outputs] == [np.float32, np.int16]
    fold = hyperslab.Fold(np.sum, np.add)
    with pytest.raises(UsageError, match=r"different dtypes \(float32, int16\)"):
        compile_plan(Pipeline(paths).reduce(fold), Rule(), BUDGET)


def test_stored_values_of_different_slopes_are_not_joined(tmp_path: Path) -> None:
    values = np.arange(64, dtype=np.int16).reshape(4, 4, 4)
    paths = [save(tmp_path / f"{slope}.nii", values, slope) for slope in (2.0, 3.0)]
    joined = gather(paths, "concatenated", 0)
    with pytest.raises(UsageError, match="--values real"):
        compile_plan(Pipeline(joined, values="stored").map(add).write("out"), Rule(), BUDGET)
    assert (
        len(
            compile_plan(
                Pipeline(joined).map(add, dtype="float64").write("out"), Rule(), BUDGET
            ).stages
        )
        == 1
    )


def test_a_task_needs_what_its_widest_step_needs(volume: str) -> None:
    fold = hyperslab.Fold(np.sum, np.add)
    narrow = compile_plan(
        Pipeline(volume).map(np.abs).reduce(fold), Rule("blocks", (1,)), BUDGET
    ).bytes_peak
    wide = compile_plan(
        Pipeline(volume).map(np.abs, dtype="float64").reduce(fold), Rule("blocks", (1,)), BUDGET
    )
    assert wide.bytes_peak - narrow >= 4096 * (8 - 2) * 2


def test_what_does_not_fit_is_refused_with_the_number_and_the_remedy(
    volume: str, tmp_path: Path
) -> None:
    budget = Budget(2 * 4096, 2)
    plan = compiled(volume, rule=Rule("blocks", (1,)), budget=budget)
    with pytest.raises(DoesNotFit, match=r"a task needs .*its slot has 4.10 kB .*--block-shape"):
        admit(examine(plan, budget, 2, tmp_path / "out"), tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "is_local", "copies"),
    [("new.h5", True, 1), ("new.h5", False, 2), ("new.nii.gz", True, 2), ("new.nii", False, 1)],
)
def test_what_is_copied_at_the_end_needs_its_space_twice(
    volume: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    is_local: bool,
    copies: int,
) -> None:
    monkeypatch.setattr(places, "is_local", lambda _: is_local)
    chunks = Encoding(chunks=(1, 16, 16)) if name == "new.h5" else Encoding()
    plan = compile_plan(
        conversion(volume, str(tmp_path / name), Wanted(encoding=chunks)),
        Rule("blocks", (2,)),
        BUDGET,
    )
    needs = examine(plan, BUDGET, 1, tmp_path)
    assert needs.bytes_written == copies * (
        plan.bytes_written + needs.tasks * JOURNAL_BYTES_PER_TASK
    )


def test_planning_costs_in_proportion_to_the_tasks(volume: str) -> None:
    source = formats.open_source(volume)

    def cpu_seconds(files: int) -> float:
        began = time.process_time()
        for joined in (concatenated([source] * files, 0), independent([source] * files)):
            plan = compile_plan(
                Pipeline(joined).map(np.negative).write("out"),
                Rule("blocks", (files, 1, 1)),
                BUDGET,
            )
            assert len(plan.stages[0].tasks) >= files
        return time.process_time() - began

    small, large = cpu_seconds(50), cpu_seconds(400)
    assert large < 8 * small * 3, f"8 times the files took {large / small:.1f} times the time"


def test_names_of_blocks_are_looked_at_once_as_they_end_alike(
    volume: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    suffix_of = formats.suffix_of

    def counted(name: str) -> Suffix | None:
        looked.append(name)
        return suffix_of(name)

    plans = [
        compile_plan(Pipeline(volume).map(np.negative).write("out"), Rule("blocks", (n,)), BUDGET)
        for n in (2, 8)
    ]
    monkeypatch.setattr(formats, "suffix_of", counted)
    for plan in plans:
        assert len(plan.stages[0].tasks) > 1
        examine(plan, BUDGET, 1, tmp_path)
    assert len(looked) == len(plans)


def test_elements_without_a_fixed_size_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "words.h5", "w") as file:
        file["words"] = np.array(["one", "two"], dtype=object)
    url = f"{tmp_path / 'words.h5'}::words"
    assert hyperslab.open(url)[1] == b"two"
    with pytest.raises(
        UsageError, match=r"words\.h5::/words: its elements have no fixed size.*hyperslab\.open"
    ):
        run.run(Pipeline(url).map(lambda block: block).write(tmp_path / "out"), engine="serial")
