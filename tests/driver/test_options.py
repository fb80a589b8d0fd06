"""Options as typed keywords: what the command line takes, an editor and a type checker know."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import hyperslab
from hyperslab.cli.run import run as command
from hyperslab.driver.options import Options
from hyperslab.plan.settings import Settings

OF_THE_COMMAND = {"verb"}
"Fields that no caller sets."
OF_THE_PIPELINE = {
    "command",
    "match",
    *("function", "source", "out", "param", "other", "mask", "labels", "resample", "region"),
    *("sources", "storage_option", "axis", "halo", "boundary", "values", "dtype", "drop_axis"),
    *("new_axis", "outputs", "format", "keep", "chunks", "compression"),
}
"Options of the command that are arguments of Pipeline and its methods."
OF_THE_TERMINAL = {
    *("detach", "dry_run", "check_locality", "json", "quiet", "verbose"),
    *("netlab", "scratch", "count_files"),  # the same command is run again elsewhere
}
"Options of the command that are functions of their own, or say what is printed."


def types_of(what: Any) -> dict[str, Any]:
    """The types of keywords, those that are only for the start of a dataclass among them."""
    found = {}
    for name, kind in get_type_hints(what).items():
        inner = getattr(kind, "type", kind) if isinstance(kind, dataclasses.InitVar) else kind
        found[name] = inner
    return found


def test_settings_are_the_options() -> None:
    wanted = types_of(Options.__init__)
    wanted.pop("return")
    assert types_of(Settings) == {
        name: kind for name, kind in wanted.items() if name not in OF_THE_COMMAND
    }


def test_every_option_of_the_command_is_a_typed_keyword() -> None:
    options = set(inspect.signature(command).parameters) - OF_THE_PIPELINE - OF_THE_TERMINAL
    assert options - Settings.__annotations__.keys() == set()


@pytest.mark.parametrize(
    "function", [hyperslab.run, hyperslab.prepare, hyperslab.submit, hyperslab.convert]
)
def test_signatures_name_the_settings(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters
    assert Settings.__annotations__.keys() <= parameters.keys()
    assert parameters["retries"].default == 1
    assert parameters["retries"].kind is inspect.Parameter.KEYWORD_ONLY


def test_type_hints_of_a_computation() -> None:
    unpacked = get_type_hints(hyperslab.Pipeline.compute)["settings"]
    assert get_origin(unpacked) is not None
    assert get_args(unpacked) == (Settings,)


def test_a_word_that_is_no_setting_is_found_by_type_checkers_too() -> None:
    """mypy --strict refuses an ignore that is not needed."""
    pipeline = hyperslab.Pipeline(np.zeros((4, 4, 4)))
    with pytest.raises(TypeError, match="did you mean 'blocks'"):
        hyperslab.run(pipeline, blcks=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean 'memory'"):
        pipeline.compute(memry="1GB")  # type: ignore[call-arg]
    with pytest.raises(hyperslab.HyperslabError):
        pipeline.compute(blocks=0.5)  # type: ignore[arg-type]


def test_options_and_settings_are_not_mixed() -> None:
    pipeline = hyperslab.Pipeline(np.zeros((4, 4, 4)))
    with pytest.raises(TypeError, match=r"run\(\) has Options and also blocks"):
        hyperslab.run(pipeline, Options(engine="serial"), blocks=3)


def test_a_plan_takes_the_settings_of_a_run(tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(np.zeros((10, 4, 4))).map(np.negative).write(tmp_path / "out")
    prepared = hyperslab.prepare(pipeline, blocks=5)
    assert len(prepared.plan.stages[0].tasks) == 5
    assert len(hyperslab.prepare(pipeline, Options(blocks=5)).plan.stages[0].tasks) == 5
    with pytest.raises(TypeError, match=r"prepare\(\) has no setting 'blcks' \(did you mean 'bl"):
        hyperslab.prepare(pipeline, blcks=5)  # type: ignore[call-arg]
    with pytest.raises(hyperslab.HyperslabError, match=r"^blocks a: give"):
        hyperslab.prepare(pipeline, blocks="a")


def test_a_plan_of_a_reduction_takes_a_folder_as_text(tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(np.zeros((4, 4, 4))).reduce("stats")
    prepared = hyperslab.prepare(pipeline, out=str(tmp_path / "out"))
    assert prepared.directory is not None
    assert prepared.directory.out == tmp_path / "out"
