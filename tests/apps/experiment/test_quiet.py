"""What is said where nothing but errors is to be printed."""

from __future__ import annotations

from pathlib import Path

from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.trials import record as records
from hyperslab.apps.experiment.trials.record import Session
from hyperslab.apps.experiment.trials.runner import Experiment, machine
from tests.apps.experiment.specs import TEXT, attempt
from tests.system.end_to_end.command import call


def test_trials_that_failed_are_told_in_quiet_too(tmp_path: Path) -> None:
    spec = tmp_path / "small.toml"
    spec.write_text(TEXT)
    out = tmp_path / "out"
    asked = Experiment.of(find(str(spec)).load(None), out)
    out.mkdir()
    asked.directory.begin(asked.loaded)
    records.append(asked.directory.record, Session(1, 0.0, machine()))
    for trial in asked.trials:
        made = attempt(trial.number, trial.replicate, trial.cell, 1.0)
        if trial.number in (2, 5):
            made = attempt(
                trial.number, trial.replicate, trial.cell, 1.0, "failed", reason="it is too dark"
            )
        records.append(asked.directory.record, made)
    told = call("experiment", "resume", str(spec), "--out", str(out), "-q")
    assert told.code == 1
    assert told.out == ""
    assert told.err == "hyperslab: trials 2 and 5: failed: it is too dark\n"
