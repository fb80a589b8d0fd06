"""Tiers of a spec: real ones, emulated ones, and what is said of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.design.cells import cells_of
from hyperslab.apps.experiment.design.setting import processors_of
from hyperslab.apps.experiment.design.spec import load_spec
from hyperslab.apps.experiment.pages.figures import write_figures
from hyperslab.apps.experiment.pages.page import write_experiment_page
from hyperslab.apps.experiment.trials.inputs import Inputs
from hyperslab.apps.experiment.trials.record import Record, load
from hyperslab.apps.experiment.trials.runner import Experiment, Wish, begin
from hyperslab.cli.trials import Silent
from hyperslab.errors import UsageError
from hyperslab.storage.emulation import program, registry
from tests.apps.experiment.specs import TEXT, experiment, loaded, record_of

TIERS = (
    (
        TEXT.replace("delay = 0\n", 'delay = 0\ntier = "here"\n')
        .replace("iterations = [2]\ndelay = [0.01]", 'tier = ["slow"]')
        .replace("replicates = 3", "replicates = 1\nprobe_s = 0.5")
    )
    + """
[tiers.here]
path = ""

[tiers.slow]
about = "a slow disk"
emulate = "throttled"
bandwidth = "20MB"
"""
)


def test_a_level_names_a_tier_and_says_whether_it_is_emulated(tmp_path: Path) -> None:
    spec = loaded(TIERS)
    inputs = Inputs(spec, tmp_path)
    baseline, slow = cells_of(spec.spec)
    assert [cell.name for cell in (baseline, slow)] == ["baseline", "tier slow (emulated)"]
    settings = [spec.setting(cell.levels) for cell in (baseline, slow)]
    assert inputs.places(settings[0]) == (str(tmp_path), str(tmp_path))
    assert inputs.places(settings[1]) == (str(tmp_path / "tiers" / "slow"),) * 2
    assert inputs.emulated(settings) == ["slow"]
    folder = inputs.folder(settings[1])
    assert inputs.lies_in(folder) == tmp_path / "tiers" / ".slow" / folder.relative_to(
        tmp_path / "tiers" / "slow"
    )
    turned = loaded(TIERS.replace('tier = "here"', 'tier = "slow"').replace('["slow"]', '["here"]'))
    assert [cell.name for cell in cells_of(turned.spec)] == [
        "baseline (tier emulated)",
        "tier here",
    ]


def test_a_real_tier_takes_the_place_of_an_emulated_one(tmp_path: Path) -> None:
    real = load_spec(TIERS, "t.toml", "t", tmp_path, None, (), [f"slow={tmp_path}"])
    assert cells_of(real.spec)[1].name == "tier slow"
    inputs = Inputs(real, tmp_path / "out")
    assert inputs.tier(Path("slow")) == tmp_path
    assert real.identity() != loaded(TIERS).identity()
    for wrong in ("slow", "slwo=/tmp", "slow=/nowhere/at/all"):
        with pytest.raises(UsageError, match=f"--tier {wrong}"):
            load_spec(TIERS, "t.toml", "t", tmp_path, None, (), [wrong])


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('path = ""', "", "tiers.here: give one of path and emulate"),
        ('"throttled"', '"throtled"', "tiers.slow.emulate: should be 'throttled'"),
        ('bandwidth = "20MB"', "", "tiers.slow: a throttled tier needs --bandwidth"),
        ('bandwidth = "20MB"', 'bandwith = "20MB"', "tiers.slow.bandwith: there is no such field"),
    ],
)
def test_a_mistake_in_a_tier_is_told(old: str, new: str, sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        loaded(TIERS.replace(old, new, 1))
    assert sentence in str(error.value)


def test_a_share_of_the_processors_is_a_number_of_workers() -> None:
    spec = loaded(TEXT.replace("delay = 0\n", 'delay = 0\nworkers = "0.01x"\n'))
    assert spec.setting({"workers": "0.01x"}).flags[-2:] == ("--workers", "1")
    with pytest.raises(UsageError, match=r"baseline\.workers"):
        loaded(TEXT.replace("delay = 0\n", 'delay = 0\nworkers = "x"\n'))


def test_the_answer_says_what_was_emulated(tmp_path: Path) -> None:
    asked = experiment(tmp_path, TIERS)
    record = record_of(asked, {"tier slow (emulated)": (2.0,)}, {})
    answer = answer_of(asked, record)
    assert "tier slow (emulated) against here: 2.00 x" in answer.evidence[0]
    assert any(one.startswith("Emulated: slow (a slow disk)") for one in answer.certainty)


def test_where_nothing_can_be_emulated_nothing_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "DEVICE", tmp_path / "none")
    asked = experiment(tmp_path / "out", TIERS)
    with pytest.raises(UsageError, match=r"'slow' is to be emulated, .* --tier slow=DIR"):
        begin(asked, Wish(asked.trials), Silent())
    assert not (tmp_path / "out").exists()


def test_an_emulated_tier_is_there_for_the_trials_and_no_longer(tmp_path: Path) -> None:
    """Trials on both tiers, a probe of each, the model of each cell."""
    try:
        program.require_fuse()
        program.PROGRAM.find()
    except UsageError as why:
        pytest.skip(str(why))
    asked = experiment(tmp_path / "out", TIERS)
    begin(asked, Wish(asked.trials), Silent())
    record = load(asked.directory.record)
    assert [one.state for one in record.attempts] == ["done", "done"]
    assert not [one for one in registry.known() if str(tmp_path) in one.directory]
    assert not (tmp_path / "out" / "tiers").exists()
    answer = answer_of(asked, record)
    places = {Path(path).name: known for path, known in answer.places.items()}
    assert places["slow"].emulated == "throttled (bandwidth 2e+07)"
    assert places["slow"].place().ceilings == {"read-cold": 2e7, "write": 2e7}
    assert places["out"].emulated == ""
    assert len(answer.expected) == 2
    for one in answer.expected:
        assert one.model.law.ratio is not None
        assert one.model.bound.ratio is not None
        assert one.result.makespan_s is not None
        assert one.model.bound.measured_s == one.result.makespan_s.mean
    assert all(one.storage["cached_share"] is not None for one in record.attempts)
    assert json.loads(asked.directory.places.read_text())["version"] == 2
    _require_page(asked, record, tmp_path / "figures")


def _require_page(asked: Experiment, record: Record, figures: Path) -> None:
    """The page marks the tier as emulated, and leads to the page of every trial."""
    answer = answer_of(asked, record)
    write_experiment_page(asked.directory.page, asked, record, answer)
    text = asked.directory.page.read_text()
    assert "<td>yes: throttled (bandwidth 2e+07)</td>" in text
    assert "as the tier was asked for" in text
    links = re.findall(r'href="(trials/.*?)"', text)
    assert len(links) == 2
    assert all((asked.directory.root / link).is_file() for link in links)
    assert len(answer.phases) == 2
    names = {path.name for path in write_figures(figures, asked, record, answer)}
    assert "expected.svg" in names


def test_a_trial_can_be_pinned_to_processors() -> None:
    spec = loaded(TEXT.replace("delay = 0\n", 'delay = 0\nprocessors = "all"\n'))
    assert spec.setting({"processors": "all"}).processors == ""
    assert processors_of(spec.setting({"processors": "0-2,5"}).processors) == [0, 1, 2, 5]
    with pytest.raises(UsageError, match=r"baseline\.processors: 'a-b' names no processors"):
        loaded(TEXT.replace("delay = 0\n", 'delay = 0\nprocessors = "a-b"\n'))


def test_experiments_of_one_name_have_folders_of_their_own_in_a_tier(tmp_path: Path) -> None:
    spec = loaded(TEXT.replace("delay = 0\n", f'delay = 0\ntier = "{tmp_path / "tier"}"\n'))
    setting = spec.setting(spec.spec.baseline)
    folders = [Inputs(spec, tmp_path / above / "out").folder(setting) for above in ("a", "b")]
    assert folders[0] != folders[1]
    assert all(tmp_path / "tier" in folder.parents for folder in folders)
    assert Inputs(spec, tmp_path / "a" / "out").folder(setting) == folders[0]


def test_a_slow_tier_takes_longer_by_the_guess(tmp_path: Path) -> None:
    text = TIERS.replace('size = "64KiB"', 'size = "200MB"')
    asked = experiment(tmp_path, text)
    usual, slow = (asked.estimator.seconds(cell, Record()) for cell in asked.cells)
    assert slow - usual == pytest.approx(2 * 200 / 20 - 2 * 200 / 200)
