"""Flags that several commands take become options of a run in one place."""

from __future__ import annotations

import inspect

import pytest

from hyperslab.arrays.partition import Rule
from hyperslab.cli.convert import convert
from hyperslab.cli.flags import options_of
from hyperslab.cli.run import run
from hyperslab.driver.options import Options
from hyperslab.errors import UsageError

NO_FLAGS = {"memory_bytes", "rule", "verb", "task_timeout_s", "debug"}
"Options that Python alone has by these names."


def test_flags_are_options_of_the_same_names_and_others_count_in_their_place() -> None:
    given = {"source": ["a.nii"], "workers": 3, "memory": "1GB", "blocks": "8", "quiet": True}
    assert options_of(given) == Options(workers=3, memory="1GB", blocks="8")
    made = options_of(given, verb="convert", blocks=None)
    assert (made.workers, made.memory_bytes, made.verb) == (3, 10**9, "convert")
    assert made.rule == Rule()
    with pytest.raises(UsageError, match=r"retries=-1: give 0 or more"):
        options_of({**given, "retries": -1})


def test_run_has_a_flag_for_every_option() -> None:
    """By whose name its value is found."""
    known = set(inspect.signature(Options).parameters)
    assert known - set(inspect.signature(run).parameters) == NO_FLAGS


def test_flags_of_convert_that_split_files_are_no_options_of_its_run() -> None:
    """All others that are named as options are."""
    known = set(inspect.signature(Options).parameters)
    assert known & set(inspect.signature(convert).parameters) == {
        *("engine", "workers", "threads", "connect", "memory", "retries"),
        *("resume", "overwrite", "report"),
        *("block_shape", "blocks"),
    }
