"""Programs that run beside hyperslab in an experiment, and leave the same records."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.apps.experiment.design.factors import PROGRAMS
from hyperslab.apps.experiment.programs.table import PROGRAMS as KNOWN
from hyperslab.apps.experiment.programs.table import rows_of
from hyperslab.apps.experiment.trials.record import load
from hyperslab.apps.experiment.trials.runner import Wish, begin
from hyperslab.cli.trials import Silent
from hyperslab.errors import UsageError
from tests.apps.experiment.specs import TEXT, experiment, loaded

SPEC = (
    TEXT.replace('"increment"', '"stats"')
    .replace('synth = "bigbrain"', 'synth = "climate"\nformat = "h5"')
    .replace("iterations = 1\ndelay = 0\n", "blocks = 3\nworkers = 1\n")
    .replace("iterations = [2]\ndelay = [0.01]\n", 'engine = ["h5py"]\n')
    .replace("replicates = 3", "replicates = 1\nprobe_s = 0")
)


def test_every_program_is_a_level_of_the_factor_engine() -> None:
    assert tuple(KNOWN) == PROGRAMS
    spec = loaded(SPEC)
    setting = spec.setting({"engine": "h5py", "workers": 1})
    assert setting.program == "h5py"
    assert "--engine" not in setting.flags
    with pytest.raises(UsageError, match="did you mean 'h5py'"):
        loaded(SPEC.replace('["h5py"]', '["h5pyy"]'))


def test_rows_are_shared_out_evenly() -> None:
    slabs = rows_of((10, 4), 3)
    assert [(slab.start[0], slab.count[0]) for slab in slabs] == [(0, 3), (3, 3), (6, 4)]
    assert all(slab.count[1] == 4 for slab in slabs)
    assert len(rows_of((2, 4), 8)) == 2


def test_h5py_reads_what_hyperslab_reads(tmp_path: Path) -> None:
    asked = experiment(tmp_path / "out", SPEC)
    begin(asked, Wish(asked.trials), Silent())
    by_engine = {one.levels["engine"]: one for one in load(asked.directory.record).attempts}
    ours, theirs = by_engine["serial"], by_engine["h5py"]
    assert [ours.reason, theirs.reason] == ["", ""]
    assert theirs.numbers["tasks"] == 3
    assert theirs.numbers["read_nbytes"] == ours.numbers["read_nbytes"]
    assert theirs.numbers["startup_s"], "that of the pool"
