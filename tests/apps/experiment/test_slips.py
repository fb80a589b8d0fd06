"""Slips of a spec: told with file, line and field before any trial, where an experiment begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.apps.experiment.design.shipped import find, shipped
from hyperslab.apps.experiment.design.spec import Loaded, load_spec
from hyperslab.apps.experiment.trials.inputs import Inputs
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.apps.experiment.trials.slips import require_sound
from hyperslab.errors import UsageError
from tests.apps.experiment.specs import TEXT
from tests.system.end_to_end.command import call

SYNTH = 'synth = "bigbrain"\nsize = "64KiB"'
OWN = """\
import numpy as np

def clip(block):
    return np.minimum(block, 100)
"""


def _loaded(text: str, folder: Path) -> Loaded:
    return load_spec(text, "small.toml", "small", folder, None)


def _slips(text: str, folder: Path) -> list[str]:
    loaded = _loaded(text, folder)
    with pytest.raises(UsageError) as told:
        require_sound(loaded, Inputs(loaded, folder / "out"))
    return str(told.value).splitlines()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            '"increment"',
            '"incremnt"',
            "2: workload: FUNCTION 'incremnt': there is no such built-in",
        ),
        ('"increment"', '"incremnt"', "(did you mean 'increment'?)"),
        ("delay = [0.01]", 'workload = ["stat"]', "vary.workload: FUNCTION 'stat': there is no"),
        ('"increment"', '"own.py:clp"', "own.py has no 'clp' (did you mean 'clip'?)"),
        ('"64KiB"', '"4Mib"', "8: source.size: '4Mib' may be bits: write 4MiB"),
        ("delay = [0.01]", 'size = ["1MB", "2Mb"]', "vary.size: '2Mb' may be bits: write 2MB"),
        ('"64KiB"', '"64KiB"\nseed = -5', "9: source.seed: should be 0 or more, not -5"),
        ("seed = 7", "seed = -5", "4: seed: should be 0 or more, not -5"),
        ("delay = [0.01]", "delay = [1, 2, 1.0]", "17: vary.delay: 1.0 is named twice"),
        ("delay = [0.01]", "delay = [0]", "17: vary.delay: 0 is the level of [baseline] already"),
        ("delay = [0.01]", "delay = []", "17: vary.delay: has no levels: name some, or leave it"),
        (SYNTH, 'path = "scans/*.nii"', "7: source.path: SOURCE '"),
        (SYNTH, 'path = "scans/*.nii"', "no file matches this pattern; there is no folder"),
        (SYNTH, 'path = "scans/*.nii"', "(did you mean 'scan'?)"),
        (SYNTH, 'path = "scan/*.nii"', "scan has head.mnc"),
        (SYNTH, 'path = ["scan", "scan/heat.mnc"]', "no such file (did you mean 'head.mnc'?)"),
        ('"serial"', '"file-reads"', "increment: there is no such reader; choose one of plain"),
        ('"serial"', '"dask-arrays"', "increment: there is no such computation"),
    ],
)
def test_a_slip_is_told_before_any_trial(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "scan").mkdir()
    (tmp_path / "scan" / "head.mnc").touch()
    text = TEXT
    if "workload = [" in new:
        text = text.replace("delay = 0\n", 'delay = 0\nworkload = "increment"\n')
    if "size = [" in new:
        text = text.replace("delay = 0\n", 'delay = 0\nsize = "64KiB"\n')
    assert old in text
    slips = _slips(text.replace(old, new, 1), tmp_path)
    assert sentence in slips[0]
    assert slips[0].startswith("small.toml:")


def test_nothing_that_is_varied_is_no_experiment(tmp_path: Path) -> None:
    text = TEXT.replace("iterations = [2]\ndelay = [0.01]\n", "")
    [told] = _slips(text, tmp_path)
    assert told.startswith("small.toml:10: baseline: nothing is varied: name further levels in")
    assert "'hyperslab run'" in told


def test_a_scale_may_take_all_levels_away(tmp_path: Path) -> None:
    text = TEXT + "\n[scales.tiny]\nvary = { delay = [] }\n"
    loaded = _loaded(text, tmp_path)
    require_sound(loaded, Inputs(loaded, tmp_path / "out"))


def test_a_function_that_is_made_as_its_file_runs_is_none(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text('globals()["clip"] = abs\n')
    loaded = _loaded(TEXT.replace('"increment"', '"own.py:clip"'), tmp_path)
    require_sound(loaded, Inputs(loaded, tmp_path / "out"))


def test_a_file_of_functions_that_is_not_there_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    with pytest.raises(UsageError) as told:
        _loaded(TEXT.replace('"increment"', '"owm.py:clip"'), tmp_path)
    assert str(told.value).startswith("small.toml:2: workload: ")
    assert "owm.py: No such file or directory (did you mean 'own.py'?)" in str(told.value)


def test_no_shipped_spec_has_a_slip() -> None:
    for spec in shipped():
        for scale in spec.scales:
            loaded = spec.load(scale)
            require_sound(loaded, Inputs(loaded, Path("none")))


def test_plan_and_run_tell_slips_and_what_has_begun_goes_on(tmp_path: Path) -> None:
    """An experiment of an earlier version, whose spec has a slip, is planned on as it is."""
    spec = tmp_path / "small.toml"
    spec.write_text(TEXT.replace("delay = [0.01]", "delay = [0.01, 0.01]"))
    out = tmp_path / "out"
    for verb in (("plan",), ("run", "-q")):
        told = call("experiment", *verb, str(spec), "--out", str(out))
        assert (told.code, told.out) == (2, "")
        assert "small.toml:17: vary.delay: 0.01 is named twice" in told.err
    assert not out.exists()
    asked = Experiment.of(find(str(spec)).load(None), out)
    out.mkdir()
    asked.directory.begin(asked.loaded)
    assert call("experiment", "plan", str(spec), "--out", str(out)).code == 0
