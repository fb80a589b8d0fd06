"""Specs: what is wrong with a file is said with its line and field; scales override."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.apps.experiment.claims.page import PAPERS
from hyperslab.apps.experiment.design.cells import cells_of
from hyperslab.apps.experiment.design.shipped import find, shipped
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.errors import UsageError
from tests.apps.experiment.specs import TEXT, loaded


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("replicates = 3", "replicate = 3", "3: replicate: there is no such field (did you mean"),
        ("replicates = 3", "replicates = 0", "3: replicates: should be greater than or equal to 1"),
        ("replicates = 3", 'replicates = "3"', "3: replicates: should be a valid integer, not '3'"),
        ('size = "64KiB"', 'size = "64XB"', "6: source: size 64XB: give a positive size"),
        ('size = "64KiB"', 'sise = "64KB"', "8: source.sise: there is no such field (did you mean"),
        ('workload = "increment"', "", "1: workload: is missing"),
        ('synth = "bigbrain"', "", "6: source: give one of path and synth"),
        ('"serial"', '"spork"', "11: baseline.engine: there is no engine 'spork' (did you mean"),
        ("iterations = [2]", "iterations = [2, 0]", "16: vary.iterations: should be greater than"),
        ("delay = [0.01]", 'delay = ["a"]', "17: vary.delay: should be a valid number, not 'a'"),
        ("delay = 0\n", 'size = "3XB"\n', "13: baseline.size: size 3XB: give a positive size such"),
        ("delay = [0.01]", "dealy = [1]", "17: vary.dealy: there is no such factor (did you mean"),
        ("delay = [0.01]", "workers = [1]", "17: vary.workers: has no level in [baseline]"),
        ("delay = [0.01]", "delay = 0.01", "17: vary.delay: should be a valid list"),
        ("[vary]", "[vary", "small.toml:15: Expected ']'"),
        ("repeats = 0\n", "repeats =", "small.toml:22: Invalid value"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_field(old: str, new: str, sentence: str) -> None:
    assert old in TEXT
    with pytest.raises(UsageError) as error:
        loaded(TEXT.replace(old, new, 1))
    assert "small.toml" in str(error.value)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("dealy = { levels = [1], at = { iterations = [2] } }", "19: vary_at.dealy.levels: there"),
        ("delay = { levels = 1, at = { iterations = [2] } }", "19: vary_at.delay.levels: should"),
        ("delay = { levels = [-1], at = { iterations = [2] } }", "19: vary_at.delay.levels: sh"),
        ("delay = { levels = [1], at = { iterations = [0] } }", "19: vary_at.delay.at.iterations"),
        ("delay = { levels = [1], at = { iterations = [] } }", "19: vary_at.delay.at.iterations"),
        ("delay = { levels = [1], at = {} }", "19: vary_at.delay.at: "),
        ("delay = { levels = [1] }", "19: vary_at.delay.at: is missing"),
        ("delay = { levels = [1], at = { delay = [2] } }", "19: vary_at.delay.at.delay: is what"),
        ("delay = { level = [1] }", "19: vary_at.delay.level: there is no such field (did you"),
        ("workers = { levels = [1], at = { delay = [2] } }", "19: vary_at.workers.levels: has no"),
    ],
)
def test_a_mistake_in_what_is_varied_elsewhere_is_told(table: str, sentence: str) -> None:
    text = TEXT.replace("delay = [0.01]\n", f"\n[vary_at]\n{table}\n")
    with pytest.raises(UsageError) as error:
        loaded(text)
    assert f"small.toml:{sentence}" in str(error.value).replace(":18:", ":19:")


def test_all_mistakes_are_told_at_once() -> None:
    text = TEXT.replace("replicates", "replicate").replace("delay = [0.01]", "dealy = [1]")
    with pytest.raises(UsageError) as error:
        loaded(text)
    assert len(str(error.value).splitlines()) == 2


def test_a_factor_that_the_source_cannot_have_is_refused() -> None:
    text = TEXT.replace('synth = "bigbrain"\nsize = "64KiB"', 'path = "a.nii"')
    text = text.replace("delay = 0\n", "delay = 0\nfiles = 2\n")
    with pytest.raises(UsageError, match=r"small.toml:13: baseline.files: is for a synthetic"):
        loaded(text)


def test_what_a_scale_leaves_out_is_known() -> None:
    """Names of levels, and factors that it does not vary; numbers that it replaces are none."""
    tiers = find("storage-tiers/incrementation")
    assert tiers.load("quick").left_out == {"processors": [], "engine": ["spark"]}
    assert find("storage-tiers/regions").load("quick").left_out == {"processors": []}
    assert find("dask-vs-spark/incrementation").load("quick").left_out == {
        "iterations": [],
        "delay": [],
    }
    stripes = find("h5spark/stripes").load("quick").left_out
    assert stripes == {"input_tier": ["two"], "engine": ["processes", "h5py"]}
    assert not any(spec.load("paper").left_out for spec in shipped())


def test_what_another_scale_has_is_left_out_too() -> None:
    """Scales are compared with each other, not with the top of their file alone."""
    text = (
        TEXT
        + """
[scales.few]
baseline = { delay = 0.5 }

[scales.many]
grid = { engine = ["threads"] }

[scales.more]
grid = { engine = ["threads", "processes"] }
"""
    )
    assert loaded(text, "few").left_out == {"engine": []}
    assert loaded(text, "many").left_out == {"engine": ["processes"]}
    assert loaded(text, "more").left_out == {}


def test_a_scale_overrides_table_by_table() -> None:
    text = TEXT + "\n[scales.tiny]\nreplicates = 1\nvary = { delay = [] }\n[scales.big]\n"
    tiny = loaded(text, "tiny")
    assert loaded(text).scale == "tiny"
    assert tiny.spec.replicates == 1
    assert tiny.spec.vary == {"iterations": [2]}
    assert tiny.spec.baseline == loaded(text, "big").spec.baseline
    with pytest.raises(UsageError, match=r"--scale bgi: .*did you mean 'big'"):
        loaded(text, "bgi")


def test_a_mistake_of_a_scale_is_told_with_its_own_line() -> None:
    text = TEXT + "\n[scales.tiny]\nreplicates = 0\n"
    line = text.splitlines().index("replicates = 0") + 1
    with pytest.raises(UsageError, match=f"small.toml:{line}: replicates"):
        loaded(text)


def test_a_workload_of_the_users_is_found_beside_the_spec(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(block):\n    return block\n")
    (tmp_path / "spec.toml").write_text(TEXT.replace('"increment"', '"mine.py:f"'))
    found = find(str(tmp_path / "spec.toml")).load(None)
    assert found.workload() == f"{tmp_path / 'mine.py'}:f"
    assert list(found.digests) == ["mine.py"]


def test_every_shipped_spec_holds_at_every_scale() -> None:
    specs = shipped()
    assert "dask-vs-spark/incrementation" in [spec.name for spec in specs]
    for spec in specs:
        assert spec.scales[:2] == ["smoke", "laptop"]
        assert spec.scales[-1] == "paper"
        for scale in spec.scales:
            assert cells_of(spec.load(scale).spec)


def test_every_spec_of_claims_has_a_quick_scale() -> None:
    """All cells that judge claims of a paper take little more than an hour together."""
    for paper in PAPERS.values():
        asked = [Experiment.of(find(spec).load("quick"), Path("none")) for spec in paper.specs]
        assert sum(one.estimator.left_s(one.trials, Record()) for one in asked) < 4200


def test_the_paper_scale_has_the_cells_of_the_paper() -> None:
    """Table I lists levels; one factor at a time was varied: 10 cells beside the baseline for each
    engine, as its records have them.
    """
    spec = find("dask-vs-spark/incrementation").load("paper").spec
    cells = cells_of(spec)
    by_engine = {cell.levels["engine"]: 0 for cell in cells}
    for cell in cells:
        by_engine[cell.levels["engine"]] += 1
    engines = {"processes", "dask-bag", "dask-delayed", "dask-futures", "spark"}
    assert by_engine == dict.fromkeys(engines, 11)


def test_an_unknown_spec_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match="did you mean 'dask-vs-spark/incrementation'"):
        find("dask-vs-spark/incrementtion")
    with pytest.raises(UsageError, match=r"SPEC no.toml: No such file"):
        find("no.toml")


ELSEWHERE = """
[scales.usual]

[scales.short.vary_at]
delay = { levels = [0.5], at = { iterations = [1, 2] } }
"""


def test_a_factor_is_varied_at_chosen_levels_of_others() -> None:
    """There alone, with what it is compared with; other scales are as they were, and so is what
    tells an experiment from others.
    """
    text = TEXT.replace("delay = [0.01]\n", "") + ELSEWHERE
    names = [cell.name for cell in cells_of(loaded(text, "short").spec)]
    assert names == ["baseline", "iterations 2", "delay 0.5", "iterations 2, delay 0.5"]
    usual = loaded(text, "usual")
    assert [cell.name for cell in cells_of(usual.spec)] == ["baseline", "iterations 2"]
    assert dict(usual.left_out) == {"delay": []}
    assert "vary_at" not in usual.identity()
    assert loaded(text, "short").identity()["vary_at"]["delay"]["levels"] == [0.5]
    alone = text.replace("[1, 2]", "[2]")
    names = [cell.name for cell in cells_of(loaded(alone, "short").spec)]
    assert names == ["baseline", "iterations 2", "iterations 2, delay 0.5"]
    none = text + "[scales.none]\nvary_at = { delay = { levels = [] } }\n"
    assert [cell.name for cell in cells_of(loaded(none, "none").spec)] == names[:2]
