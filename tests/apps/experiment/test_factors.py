"""Factors of users: the example of the docs, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hyperslab.apps.experiment.design.cells import cells_of
from hyperslab.apps.experiment.design.factors import FACTORS, load_factors
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.trials.inputs import Inputs
from hyperslab.apps.experiment.trials.laboratory import Around
from hyperslab.apps.experiment.trials.runner import Experiment, command_of
from hyperslab.engines.environment import THREAD_VARIABLES
from hyperslab.errors import UsageError
from tests.apps.experiment.specs import TEXT

PAGE = Path(__file__).parents[3] / "docs" / "experiments.md"


def _example(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    return found[1]


def test_the_factor_of_the_docs_can_be_varied(tmp_path: Path) -> None:
    path = tmp_path / "retries_of_docs.py"
    path.write_text(_example("python"))
    spec = tmp_path / "spec.toml"
    spec.write_text(TEXT.replace("delay = 0\n", "delay = 0\nretries = 1\n"))
    try:
        loaded = find(str(spec)).load(None, [path])
        setting = loaded.setting({"retries": 3})
        assert setting.flags[-2:] == ("--retries", "3")
        assert loaded.digests.keys() == {"retries_of_docs.py"}
        spec.write_text(spec.read_text().replace("retries = 1", "retries = 'x'"))
        with pytest.raises(UsageError, match=r"baseline\.retries: should be a valid integer"):
            find(str(spec)).load(None, [path])
    finally:
        FACTORS.pop("retries", None)


def test_the_spec_of_the_docs_holds(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(_example("toml"))
    assert find(str(path)).load(None).scale == "quick"


def test_a_file_of_factors_that_fails_is_told(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("1 / 0\n")
    with pytest.raises(UsageError, match=r"--factors .*broken.py: ZeroDivisionError"):
        load_factors(path)
    with pytest.raises(UsageError, match="no such Python file"):
        load_factors(tmp_path / "none.py")


@pytest.mark.parametrize(
    ("body", "line", "why"),
    [
        ("return {}[level]", 8, "KeyError: 3"),
        ("setting.with_flag('--retries', level)", 6, "it returned None, and has to return the"),
    ],
)
def test_a_factor_that_fails_is_told_with_its_file_and_line(
    body: str, line: int, why: str, tmp_path: Path
) -> None:
    path = tmp_path / f"failing_{line}.py"
    text = _example("python")
    path.write_text(text.replace('return setting.with_flag("--retries", level)', body))
    spec = tmp_path / "spec.toml"
    spec.write_text(TEXT.replace("delay = 0\n", "delay = 0\nretries = 3\n"))
    try:
        with pytest.raises(UsageError) as told:
            find(str(spec)).load(None, [path])
    finally:
        FACTORS.pop("retries", None)
    said = f"{path}:{line}: factor 'retries' at level 3: {why}"
    assert str(told.value).startswith(said)


def test_a_level_that_a_factor_refuses_is_told_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "refusing.py"
    refusal = "if level > 2:\n        raise ValueError('two will do')\n    return setting"
    text = _example("python").replace('return setting.with_flag("--retries", level)', refusal)
    path.write_text(text)
    spec = tmp_path / "spec.toml"
    varied = TEXT.replace("delay = 0\n", "delay = 0\nretries = 1\n")
    spec.write_text(varied.replace("delay = [0.01]", "retries = [2, 3]"))
    try:
        with pytest.raises(UsageError, match=r"spec.toml:18: vary.retries: two will do"):
            find(str(spec)).load(None, [path])
    finally:
        FACTORS.pop("retries", None)


def test_scratch_is_a_tier_or_one_file_on_it_or_memory() -> None:
    loaded = find("spark-on-lustre/scratch").load("smoke")
    inputs = Inputs(loaded, Path("/x"))

    def flags(level: str) -> list[str]:
        setting = loaded.setting({"scratch": level})
        return inputs.flags(setting)[len(loaded.setting({}).flags) :]

    assert flags("shared") == ["--scratch", "/x/tiers/shared"]
    assert flags("image:shared") == ["--scratch", "image:/x/tiers/shared"]
    assert flags("local") == ["--scratch", "/x"]
    assert flags("tmpfs") == ["--scratch", "tmpfs"]
    assert flags("none") == []
    both = [loaded.setting({"scratch": level}) for level in ("image:shared", "local")]
    assert inputs.emulated(both) == ["shared"]
    names = [cell.name for cell in cells_of(loaded.spec)]
    assert "scratch image:shared (emulated)" in names


def test_a_task_uses_as_many_processors_as_asked_for(tmp_path: Path) -> None:
    """Where one worker would have both processors, its program is told of one."""
    spec = tmp_path / "spec.toml"
    spec.write_text(TEXT.replace("delay = 0\n", "delay = 0\ncpus_per_task = 1\n"))
    loaded = find(str(spec)).load(None)
    experiment = Experiment.of(loaded, tmp_path / "trials")
    command = command_of(experiment, loaded.setting({"cpus_per_task": 1}), tmp_path, Around())
    assert command.environment == dict.fromkeys(THREAD_VARIABLES, "1")
    assert not command_of(experiment, loaded.setting({}), tmp_path, Around()).environment
