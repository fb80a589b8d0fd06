"""`hyperslab doctor` and `hyperslab synth`."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

import hyperslab
from hyperslab.engines.facts import ENGINES
from hyperslab.workloads import BUILTINS
from tests.system.end_to_end.command import Finished, affine_of, call, outputs, succeed, values_of

pytestmark = pytest.mark.usefixtures("on_threads")


def test_doctor() -> None:
    done = call("doctor")
    assert done.code == 0
    assert done.err == ""
    for engine, facts in ENGINES.items():
        said = "installed\n"
        if facts.batch_system:  # of which a cluster is needed, too
            said = "not here: "
            assert "on a cluster, run it where jobs are submitted" in done.out
        assert f"engine     {engine}: {said}" in done.out
    for name in BUILTINS:
        assert re.search(rf"^built-in   {name}: [A-Z].*\.$", done.out, re.MULTILINE)
    assert f"library    hyperslab {hyperslab.__version__}\n" in done.out
    assert re.search(r"^processors \d+ \(by \S.*\)$", done.out, re.MULTILINE)
    assert re.search(r"^memory     \S+ [MGT]B \(by \S.*\)$", done.out, re.MULTILINE)


def test_doctor_starts_no_engine_unless_it_is_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperslab.driver.run.run", lambda *_, **__: pytest.fail("a run"))
    assert call("doctor").out.endswith(
        "'hyperslab doctor --start' runs a small job on every engine.\n"
    )


def test_doctor_runs_a_job_on_every_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    local = {name: ENGINES[name] for name in ("serial", "threads", "processes")}
    monkeypatch.setattr("hyperslab.engines.facts.ENGINES", local)
    done = call("doctor", "--start")
    assert done.code == 0
    assert done.err == ""
    for engine in local:
        assert f"engine     {engine}: works\n" in done.out


def test_doctor_says_which_engine_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = replace(ENGINES["spark"], libraries=("no-such-distribution",))
    monkeypatch.setitem(ENGINES, "spark", absent)
    done = call("doctor")
    assert done.code == 0
    assert "engine     spark: not installed: pip install 'hyperslab[spark]'\n" in done.out


def test_doctor_says_what_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, engine: str, **__: object) -> object:
        raise hyperslab.HyperslabError(f"no {engine} today")

    monkeypatch.setattr("hyperslab.driver.run.run", broken)
    done = call("doctor", "--start")
    assert done.code == 1
    assert "engine     threads: fails: no threads today\n" in done.out


def synth(out: Path, *arguments: object) -> Finished:
    return call("synth", "bigbrain", "-o", out, "--size", "2MB", *arguments)


def test_synth_is_the_same_whatever_the_blocks_and_workers(tmp_path: Path) -> None:
    whole = synth(tmp_path / "whole")
    assert whole.code == 0
    assert re.match(rf"1 file, [12]\.?\d* MB, in {tmp_path}/whole \(", whole.out)
    assert synth(tmp_path / "blocks", "--blocks", "12", "--workers", "2").out.startswith(
        "12 files, "
    )
    (volume,) = outputs(tmp_path / "whole")
    assert values_of(volume).dtype == np.uint16
    succeed(
        "run",
        "numpy:positive",
        tmp_path / "blocks",
        "-o",
        tmp_path / "back",
        "--sources",
        "mosaic",
        "--keep",
        "volume",
    )
    (back,) = outputs(tmp_path / "back")
    assert np.array_equal(values_of(back), values_of(volume))
    assert np.allclose(affine_of(back), affine_of(volume))
    assert len(np.unique(values_of(volume))) > 1000


def test_synth_with_another_seed_is_another_array(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert synth(tmp_path / name, "--seed", seed).code == 0
    a, b, c = (values_of(outputs(tmp_path / name)[0]) for name in "abc")
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_synth_refuses_a_directory_that_holds_arrays(tmp_path: Path) -> None:
    assert synth(tmp_path / "out").code == 0
    done = synth(tmp_path / "out", "--blocks", "2")
    assert done.code == 2
    assert "--out" in done.err
    assert len(outputs(tmp_path / "out")) == 1


def test_a_climate_as_hdf5(tmp_path: Path) -> None:
    done = call(
        "synth",
        "climate",
        "-o",
        tmp_path / "c",
        "--size",
        "500kB",
        "--format",
        "h5",
        "--blocks",
        "2",
    )
    assert done.code == 0
    with h5py.File(outputs(tmp_path / "c")[0]) as file:
        assert file["data"].dtype == np.float32
    succeed("run", "stats", tmp_path / "c", "-o", tmp_path / "s", "-q")
    assert 200 < json.loads((tmp_path / "s" / "stats.json").read_text())["mean"] < 330
