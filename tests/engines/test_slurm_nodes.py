"""The slurm engine on two nodes, which have names and clocks of their own, and a folder that one of
them does not see.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab
from hyperslab.driver import manage
from hyperslab.driver.result import Result
from hyperslab.driver.submission import load_records
from hyperslab.engines.slurm.engine import Slurm
from hyperslab.errors import RunStopped, TasksFailed
from hyperslab.plan.pipeline import Pipeline
from hyperslab.testing import functions
from hyperslab.trace import Trace
from tests.engines.looking import LOOK, require_own, seen
from tests.storage.scratch.stage import require_program
from tests.system.clusters import slurm
from tests.system.clusters.another_host import AHEAD_S, APART
from tests.system.clusters.required import required
from tests.system.faults.command import load, make_volume

HERE = socket.gethostname()
ELSEWHERE = "elsewhere"
ONE_A_NODE = ("mem=512M", "exclusive")


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that the second of the two nodes does not see, while they run."""
    required(slurm.missing())
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode:
        required("no host names and clocks can be made apart here (unshare, as root)")
    folder = tmp_path_factory.mktemp("slurm")
    with slurm.in_reach(folder, elsewhere=[ELSEWHERE]):
        yield folder / slurm.UNSEEN


@pytest.fixture(autouse=True)
def _a_job_for_each_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slurm, "batches_per_slot", 1)


def run(source: Path, out: Path, **options: Any) -> Result:
    """Add one to a volume in two jobs, of which a node runs one at a time."""
    pipeline = Pipeline(str(source)).map(functions.add, {"seconds": 0.05})
    settings = {"engine": "slurm", "workers": 2, "slurm_option": ONE_A_NODE, "blocks": 8}
    return hyperslab.run(
        pipeline.write(out, keep="volume"), **{**settings, "report": False, **options}
    )


def require_one_axis(trace: Trace) -> None:
    """The phases of all hosts lie within the run."""
    meta = trace.meta
    assert all(meta["start_ns"] <= s.start_ns <= s.end_ns <= meta["end_ns"] for s in trace.spans), (
        trace.meta["clocks"]
    )


@pytest.mark.usefixtures("unseen")
def test_jobs_on_two_nodes_are_lanes_of_one_time_axis(tmp_path: Path) -> None:
    values = make_volume(tmp_path / "in.nii")
    result = run(tmp_path / "in.nii", tmp_path / "out")
    assert np.array_equal(load(result.outputs[0]), values + np.uint16(1))
    assert sorted(result.trace.slots) == sorted([f"{HERE}/w0/t0", f"{ELSEWHERE}/w0/t0"])
    assert {span.slot for span in result.trace.spans} == set(result.trace.slots)
    clocks = result.trace.meta["clocks"]
    assert clocks[HERE]["how"] == "same clock"
    assert clocks[ELSEWHERE]["how"] == "measured"
    assert abs(clocks[ELSEWHERE]["offset_ns"] + AHEAD_S * 10**9) < 10**9
    require_one_axis(result.trace)


@pytest.mark.usefixtures("unseen")
def test_each_job_has_an_image_on_the_storage_of_all_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after one was killed with what had made its image: nothing is left of any."""
    require_program()
    for name in ("storage", "runtime", "told"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    make_volume(tmp_path / "in.nii")
    pipeline = Pipeline(str(tmp_path / "in.nii"))
    pipeline = pipeline.map(LOOK, {"folder": str(tmp_path / "told"), "dies": True})
    result = hyperslab.run(
        pipeline.write(tmp_path / "out", keep="volume"),
        engine="slurm",
        workers=2,
        slurm_option=ONE_A_NODE,
        blocks=8,
        report=False,
        trial=False,
        scratch=f"image:{tmp_path / 'storage'}",
    )
    assert result.ok
    assert [span for span in result.trace.spans if span.lost]
    told = seen(tmp_path / "told")
    assert {one["host"] for one in told} == {HERE, ELSEWHERE}
    assert len(told) > 2, "one was killed"
    require_own(told, tmp_path / "storage", tmp_path / "runtime")


@pytest.mark.usefixtures("unseen")
def test_a_detached_run_ends_on_another_host(tmp_path: Path) -> None:
    """All its jobs, the last one too, are on a host whose clock is ahead."""
    values = make_volume(tmp_path / "in.nii")
    pipeline = Pipeline(str(tmp_path / "in.nii")).map(functions.add)
    there = ("mem=512M", f"nodelist={ELSEWHERE}")
    hyperslab.submit(
        pipeline.write(tmp_path / "out", keep="volume"),
        engine="slurm",
        throttle=2,
        slurm_option=there,
        blocks=4,
        report=False,
    )
    assert manage.wait(tmp_path / "out").state == "done"
    assert np.array_equal(load(tmp_path / "out" / "in.nii"), values + np.uint16(1))
    trace = load_records(tmp_path / "out").trace
    assert {span.slot for span in trace.spans} <= set(trace.slots)
    assert all(slot.startswith(f"{ELSEWHERE}/") for slot in trace.slots)
    assert trace.meta["clocks"][ELSEWHERE]["how"] == "wall clocks"
    require_one_axis(trace)


def test_a_source_that_a_node_does_not_see_is_told_with_the_node(
    tmp_path: Path, unseen: Path
) -> None:
    make_volume(unseen / "in.nii")
    with pytest.raises(TasksFailed) as raised:
        run(unseen / "in.nii", tmp_path / "out", retries=0)
    said = f"{unseen}/in.nii: {ELSEWHERE} does not see this file, which is there on {HERE}: "
    failures = raised.value.failures
    assert {one.message.startswith(said) for one in failures} == {True}
    assert 0 < len(failures) < 8, "the node that sees it has done its part"


def test_a_node_that_does_not_see_the_outputs_takes_no_further_jobs(unseen: Path) -> None:
    """It would fail all of them faster than the other one does any."""
    values = make_volume(unseen / "in.nii")
    said = (
        f"^all of Slurm's jobs on {ELSEWHERE} failed, and those on {HERE} did not: .*worker.log"
        rf" says why, .* or leave {ELSEWHERE} out \(slurm_option='exclude={ELSEWHERE}'\); "
    )
    with pytest.raises(RunStopped, match=said):
        run(unseen / "in.nii", unseen / "out")
    assert 0 < manage.status(unseen / "out").done < 8
    without = ("mem=512M", f"exclude={ELSEWHERE}")
    assert run(unseen / "in.nii", unseen / "out", resume=True, slurm_option=without).ok
    assert np.array_equal(load(unseen / "out" / "in.nii"), values + np.uint16(1))
