"""Cells and the order of trials."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.answers.comparison import results_of
from hyperslab.apps.experiment.design.cells import cells_of, chosen, trials_of
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.errors import UsageError
from tests.apps.experiment.specs import TEXT, loaded, record_of
from tests.system.end_to_end.command import call

GRID = TEXT + '\n[grid]\nengine = ["threads", "processes"]\n'


def test_too_many_trials_are_refused_before_they_are_made() -> None:
    many = TEXT.replace("replicates = 3", "replicates = 100_000_000")
    told = _refusal(many)
    assert told.startswith("small.toml:3: replicates: 3 cells x 100,000,000 replicates are 300,000")
    iterations = list(range(2, 502))
    delays = [delay / 100 for delay in range(1, 301)]
    crossed = f"[grid]\niterations = {iterations}\ndelay = {delays}\n"
    told = _refusal(TEXT.replace("[vary]\niterations = [2]\ndelay = [0.01]\n", crossed))
    assert told.startswith("small.toml:15: grid: 150,801 cells x 3 replicates are 452,403 trials")


def _refusal(text: str) -> str:
    with pytest.raises(UsageError) as told:
        Experiment.of(loaded(text), Path("none"))
    return str(told.value)


def test_too_many_replicates_on_the_command_line_are_refused() -> None:
    many = loaded().with_replicates(100_000_000)
    with pytest.raises(UsageError, match=r"--replicates 100000000: 3 cells x 100,000,000"):
        Experiment.of(many, Path("none"))


def test_one_factor_at_a_time_is_varied_around_the_baseline() -> None:
    names = [cell.name for cell in cells_of(loaded().spec)]
    assert names == ["baseline", "iterations 2", "delay 0.01"]


def test_a_grid_is_crossed_with_what_is_varied() -> None:
    cells = cells_of(loaded(GRID).spec)
    assert len(cells) == 9
    assert cells[4].name == "engine threads, iterations 2"
    full = TEXT.replace("[vary]", "[grid]")
    assert len(cells_of(loaded(full).spec)) == 4


def test_a_share_of_the_processors_is_told_in_workers(tmp_path: Path) -> None:
    """Of the machine that trials ran on, wherever they are looked at."""
    text = TEXT.replace("delay = 0\n", 'delay = 0\nworkers = "0.25x"\n')
    asked = Experiment.of(loaded(text.replace("delay = [0.01]", 'workers = ["1x"]')), tmp_path)
    answer = answer_of(asked, record_of(asked, {}, {"processors": 2}))
    one, two = "0.25x (1 worker)", "1x (2 workers)"
    assert [result.cell.name for result in answer.results][-1] == f"workers {two}"
    assert answer.results[0].cell.shown("workers") == one
    alike = f"choose {one} or {two}; {two} and {one} are equivalent (within 10 %)"
    assert f"workers, at iterations 1: {alike}." in answer.decision
    on_many = results_of(asked.cells, record_of(asked, {}, {"processors": 96}))
    assert on_many[0].cell.shown("workers") == "0.25x (24 workers)"


def test_a_level_of_the_baseline_makes_no_cell_of_its_own() -> None:
    text = TEXT.replace("iterations = [2]", "iterations = [1, 2, 2]")
    assert len(cells_of(loaded(text).spec)) == 3


def test_trials_are_blocked_by_replicate_and_shuffled_by_the_seed() -> None:
    spec = loaded(GRID).spec
    trials = trials_of(spec)
    assert [trial.number for trial in trials] == list(range(1, 28))
    assert [trial.replicate for trial in trials] == [1] * 9 + [2] * 9 + [3] * 9
    orders = [[trial.cell.name for trial in trials[n : n + 9]] for n in (0, 9, 18)]
    assert all(set(order) == set(orders[0]) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert trials_of(spec) == trials
    assert trials_of(loaded(GRID.replace("seed = 7", "seed = 8")).spec) != trials


def test_some_levels_can_be_chosen() -> None:
    trials = trials_of(loaded(GRID).spec)
    some = chosen(trials, ["engine=threads,serial", "delay=0"])
    assert {trial.cell.levels["engine"] for trial in some} == {"threads", "serial"}
    assert len(some) == 12
    assert chosen(trials, []) == trials
    for wrong in ("engine", "engien=serial", "engine=spark"):
        with pytest.raises(UsageError, match=f"--only {wrong}"):
            chosen(trials, [wrong])


def test_the_order_in_which_factors_are_named_tells_no_cells_apart() -> None:
    other = TEXT.replace(
        'engine = "serial"\niterations = 1\n', 'iterations = 1\nengine = "serial"\n'
    )
    assert other != TEXT
    keys = [trial.cell.key for trial in trials_of(loaded(other).spec)]
    assert keys == [trial.cell.key for trial in trials_of(loaded().spec)]


def test_a_plan_lists_cells_and_trials(tmp_path: Path) -> None:
    line = (
        "experiment",
        "plan",
        "dask-vs-spark/histogram",
        "--scale",
        "smoke",
        "-o",
        tmp_path / "o",
    )
    told = call(*line)
    assert told.code == 0, told.err
    asked = Experiment.of(find("dask-vs-spark/histogram").load("smoke"), tmp_path / "o")
    lines = told.out.partition("each with the time of one trial\n")[2].splitlines()
    assert [one.split("  ")[1] for one in lines] == [cell.name for cell in asked.cells]
    assert all(" 1 trial of about " in one for one in lines)
    plan = json.loads(call(*line, "--json").out)
    order = [(one["number"], one["replicate"], one["levels"]) for one in plan["order"]]
    assert order == [(one.number, one.replicate, one.cell.levels) for one in asked.trials]
    assert not any(one["is_done"] for one in plan["order"])
