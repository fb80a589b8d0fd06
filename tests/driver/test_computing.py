"""Errors of a computation in memory: what they advise, as there is nothing to resume."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab
from hyperslab.arrays import Array
from hyperslab.driver import computing
from hyperslab.engines.facts import engine_names
from hyperslab.errors import CONTINUES, HyperslabError, Missing, RunStopped, TasksFailed, UsageError
from hyperslab.errors import in_callers_words as in_python
from tests.system.end_to_end.command import save


def test_a_run_that_stops_advises_to_compute_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands before the advice, be it of the same words."""
    path = save(tmp_path / "a; b.nii", np.zeros((4, 4, 4), np.int16))
    stopped = RunStopped(f"{path}: use --resume: or not; {path}", CONTINUES)

    def stops(*_: Any, **__: Any) -> None:
        raise stopped

    monkeypatch.setattr(computing, "run", stops)
    with pytest.raises(RunStopped) as raised:
        hyperslab.Pipeline(path).reduce("stats").compute()
    said = f"{path}: use resume=True: or not; {path}; fix the cause, then call compute() again"
    assert str(raised.value) == said


def test_what_cannot_be_mended_by_another_call_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stops(*_: Any, **__: Any) -> None:
        raise RunStopped("Java is not installed")

    monkeypatch.setattr(computing, "run", stops)
    with pytest.raises(RunStopped, match=r"^Java is not installed$"):
        hyperslab.Pipeline(np.zeros((4, 4, 4))).reduce("stats").compute()


def test_a_source_that_has_gone(tmp_path: Path) -> None:
    path = save(tmp_path / "a.nii", np.zeros((4, 4, 4), np.int16))

    def gone(block: Array) -> Array:
        path.unlink(missing_ok=True)
        return block

    pipeline = hyperslab.Pipeline(path).map(gone)
    with pytest.raises(TasksFailed, match="is no longer there: restore it") as raised:
        pipeline.compute(engine="serial", blocks=4, trial=False)
    assert str(raised.value).endswith("; fix the cause, then call compute() again")
    assert "resume" not in str(raised.value)


@pytest.mark.parametrize(
    "error",
    [
        RunStopped("the disk is full", "fix that, then use --resume"),
        Missing("there is no such file"),
        UsageError(),
    ],
)
def test_errors_survive_the_way_to_another_process(error: HyperslabError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.sentence, again.resuming) == (
        str(error),
        error.sentence,
        error.resuming,
    )


def test_an_error_in_the_words_of_python() -> None:
    error = RunStopped("--engine slurm: no answer", CONTINUES)
    error.retell(in_python(error.sentence), in_python(error.resuming))
    assert re.fullmatch("engine='slurm': no answer; resume=True continues the run", str(error))


def test_a_word_behind_an_engine_or_an_address_is_its_name() -> None:
    for name in (*engine_names(), "of-a-package"):
        assert in_python(f"is for --engine slurm, not for --engine {name}") == (
            f"is for engine='slurm', not for engine={name!r}"
        )
        assert in_python(f"--engine {name}: no answer") == f"engine={name!r}: no answer"
    assert in_python("name it by --engine, --workers and --connect.") == (
        "name it by engine, workers and connect."
    )
    for place in ("world", "tcp://HOST:PORT", "tcp://127.0.0.1:8786", "scheduler.json"):
        assert in_python(f"--connect {place}: nobody answers") == (
            f"connect={place!r}: nobody answers"
        )


def test_words_that_are_values_are_quoted_in_python() -> None:
    assert in_python("use --resample nearest (masks) or --resample linear") == (
        "use resample='nearest' (masks) or resample='linear'"
    )
    assert in_python("leave the choice to --partition auto") == (
        "leave the choice to partition='auto'"
    )
    assert in_python("--workers says how many") == "workers says how many"
    assert in_python("use --memory 1.51MB or more, or --workers 1 and --memory 2MB or more") == (
        "use memory='1.51MB' or more, or workers=1 and memory='2MB' or more"
    )


def test_files_that_are_complete_are_not_told(tmp_path: Path) -> None:
    """They are temporary."""
    paths = [save(tmp_path / f"{n}.nii", np.full((4, 4, 4), n, np.int16)) for n in (1, 2)]

    def only_ones(block: Array) -> Array:
        if block.max() > 1:
            raise OSError("not to my liking")
        return block

    pipeline = hyperslab.Pipeline(list(map(str, paths))).map(only_ones)
    with pytest.raises(TasksFailed, match="not to my liking") as raised:
        pipeline.compute(engine="serial", blocks=2, trial=False, retries=0)
    assert "names" not in str(raised.value)
