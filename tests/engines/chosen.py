"""Engines that share most of their code play most of the suite once."""

from __future__ import annotations

import os
from collections.abc import Callable

from hyperslab.testing import EngineTests

DIFFERING = (
    "test_blocks_are_the_same_whatever_the_workers",
    "test_reductions_are_exact_for_integers",
    "test_folds_with_a_prior",
    "test_every_phase_is_in_the_trace",
    "test_a_bad_block_fails_alone",
    "test_a_resumed_run_repeats_only_what_is_missing",
    "test_a_command_that_is_late_ends_with_all_that_it_has_started",
)
"""What shows how engines of batches differ: in the graph of a map, of a reduction, and of single
steps, and in how it is given up. `dask-bag` plays the whole suite.
"""

ALL = "HYPERSLAB_ALL_ENGINE_TESTS"
"Environment variable that has every engine play the whole suite, if it is set."


def only(names: tuple[str, ...]) -> Callable[[type[EngineTests]], type[EngineTests]]:
    """Keep these tests of the suite alone in a class, unless all of them are asked for."""

    def chosen(cls: type[EngineTests]) -> type[EngineTests]:
        for name in dir(EngineTests):
            if name.startswith("test_") and name not in names and ALL not in os.environ:
                setattr(cls, name, None)
        return cls

    assert all(hasattr(EngineTests, name) for name in names), names
    return chosen


def without(name: str) -> Callable[[type[EngineTests]], type[EngineTests]]:
    """Leave out a test that engines of the same code play, unless all are asked for."""

    def chosen(cls: type[EngineTests]) -> type[EngineTests]:
        if ALL not in os.environ:
            setattr(cls, name, None)
        return cls

    assert hasattr(EngineTests, name), name
    return chosen
