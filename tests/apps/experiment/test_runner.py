"""What is run next: in each block what was not tried, then starved trials up to the limit, then
failed ones where that is asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hyperslab.apps.experiment.design.spec import Starved
from hyperslab.apps.experiment.trials.load import takers
from hyperslab.apps.experiment.trials.record import Attempt, Record, Session
from hyperslab.apps.experiment.trials.runner import Experiment, Wish, next_trial
from tests.apps.experiment.specs import TEXT, attempt, experiment

SESSION = Session(1, 0.0, {})
LATER = Session(2, 0.0, {})


def _record(attempts: list[Attempt]) -> Record:
    by_trial: dict[int, list[Attempt]] = {}
    for one in attempts:
        by_trial.setdefault(one.number, []).append(one)
    return Record([SESSION], attempts, 0, by_trial)


def _attempts(asked: Experiment, numbers: list[int], **more: Any) -> list[Attempt]:
    trials = {trial.number: trial for trial in asked.trials}
    return [
        attempt(number, trials[number].replicate, trials[number].cell, 1.0, **more)
        for number in numbers
    ]


def _next(asked: Experiment, attempts: list[Attempt], session: Session, again: bool) -> int | None:
    wish = Wish(asked.trials, retry_failed=again)
    trial = next_trial(asked, wish, _record(attempts), session)
    if trial is None:
        return None
    return trial.number


def test_a_starved_trial_is_repeated_in_its_block_up_to_the_limit(tmp_path: Path) -> None:
    asked = experiment(tmp_path, TEXT.replace("repeats = 0", "repeats = 2"))
    first = [
        *_attempts(asked, [1]),
        *_attempts(asked, [2], starved="other programs took 40 %"),
    ]
    assert _next(asked, first, SESSION, again=False) == 3, "the rest of the block comes first"
    first += _attempts(asked, [3])
    assert _next(asked, first, SESSION, again=False) == 2
    again = _attempts(asked, [2], starved="again")
    assert _next(asked, [*first, *again], SESSION, again=False) == 2
    assert _next(asked, [*first, *again, *again], SESSION, again=False) == 4, "the limit"
    calm = _attempts(asked, [2])
    assert _next(asked, [*first, *calm], SESSION, again=False) == 4
    counted = _record([*first, *calm, *again]).counted()
    assert [one.starved for one in counted] == ["", "", ""]


def test_failed_trials_are_tried_once_more_in_a_later_session_alone(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    done = _attempts(asked, [1, 2, 4, 5, 6, 7, 8, 9])
    failed = _attempts(asked, [3], state="failed", reason="no")
    assert _next(asked, [*done, *failed], SESSION, again=False) is None
    assert _next(asked, [*done, *failed], LATER, again=True) == 3
    more = _attempts(asked, [3], state="failed", reason="no", session=2)
    assert _next(asked, [*done, *failed, *more], LATER, again=True) is None


def test_a_failed_trial_that_was_starved_is_tried_once_more_where_that_is_asked_for(
    tmp_path: Path,
) -> None:
    asked = experiment(tmp_path)
    done = _attempts(asked, [1, 2, 4, 5, 6, 7, 8, 9])
    failed = _attempts(asked, [3], state="failed", reason="no", starved="others")
    assert _next(asked, [*done, *failed], LATER, again=False) is None
    assert _next(asked, [*done, *failed], LATER, again=True) == 3
    more = _attempts(asked, [3], state="failed", reason="no", starved="others", session=2)
    assert _next(asked, [*done, *failed, *more], LATER, again=True) is None
    calm = _attempts(asked, [3], starved="others")
    assert _next(asked, [*done, *calm], LATER, again=True) is None, "starved, and done"


def test_who_takes_the_processors_is_told() -> None:
    limits = Starved(others=0.1, stolen=0.05)
    assert not list(takers({"others_share": 0.1, "stolen_share": 0.0}, limits))
    assert not list(takers({"others_share": None, "stolen_share": None}, limits))
    both = takers({"others_share": 0.5, "stolen_share": 0.25}, limits)
    assert list(both) == ["other programs took 50 %", "other virtual machines took 25 %"]
