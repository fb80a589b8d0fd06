"""A failure names the host that does not see a file, where that is why, and there alone."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

import hyperslab
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading
from hyperslab.driver import unseen
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.errors import HyperslabError
from hyperslab.plan.failure import describe_failure
from hyperslab.plan.task import Outcome
from tests.system.faults.command import make_volume


@pytest.mark.parametrize("host", ["elsewhere", socket.gethostname()])
@pytest.mark.parametrize("now", ["there", "gone", "other"])
def test_a_host_is_named_where_the_driver_sees_the_file(
    tmp_path: Path, host: str, now: str
) -> None:
    path = tmp_path / "in.nii"
    make_volume(path)
    pipeline = hyperslab.Pipeline(str(path)).map("increment").write(tmp_path / "out")
    stage = prepare(pipeline, Options(workers=1)).plan.stages[0]
    source = pipeline.source.sources[0]
    away = path.rename(tmp_path / "away")
    if now == "other":
        path.write_bytes(b"of another size")
    with pytest.raises(HyperslabError) as raised:
        reading.read(source, Hyperslab.full(source.shape))
    failure = describe_failure(raised.value, "here")
    if now == "there":
        away.rename(path)
    outcome = Outcome(0, 0, "failed", failure, slot=f"{host}/w1/t1")
    told = unseen.told(outcome, stage.job, stage.tasks[0])
    if now == "there" and host == "elsewhere":
        assert told.failure is not None
        assert told.failure.message.startswith(f"{path}: elsewhere does not see this file, which")
        assert replace(told, failure=failure) == outcome
    else:
        assert told == outcome
