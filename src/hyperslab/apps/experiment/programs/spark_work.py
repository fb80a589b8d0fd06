"""Work: what a client computes in each round, made of the workload that is asked for, with what its
result has to be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hyperslab.apps.experiment.design.setting import IN_SPARK
from hyperslab.connectors.spark import key_values, learning
from hyperslab.connectors.spark.key_values import Size
from hyperslab.connectors.spark.learning_data import Problem
from hyperslab.errors import UsageError

PAIRS, LEARNING = IN_SPARK


@dataclass(frozen=True, slots=True)
class Rounds:
    """What is computed, and how often."""

    workload: str
    scale: float = 0.001
    "Number of times 20 hosts that the data are for: spark-perf's scale factor."
    rounds: int = 8
    warmups: int = 2
    "Rounds before them that do not count."
    pause_s: float = 0.0
    "Seconds between two rounds."
    partitions: int = 0
    "Number of map tasks, where it is not that of the scale."
    reducers: int = 0
    keys: int = 0
    tasks: int = 0
    "Number of empty tasks, where it is not that of the scale."
    columns: int = 0
    "Number of features, where it is not that of the scale."
    threshold: int = -1
    "Reduce tasks up to which a shuffle sorts nothing (bypassMergeThreshold); -1: Spark's own."
    clients: int = 1
    "Number of Sparks that compute the same at the same time, each with as many cores."


class Work(NamedTuple):
    """Something that is computed, and what is wrong with a result."""

    run: Callable[[], Any]
    wrong: Callable[[Any], str]
    "What is wrong, as a clause; '' where nothing is."


def require(asked: Rounds, program: str) -> None:
    """Raise UsageError for rounds that cannot be computed."""
    if asked.rounds < 1 or asked.warmups < 0 or asked.clients < 1:
        raise UsageError(
            "rounds, warmups, clients: give at least one round and one client, and no negative"
            " number"
        )
    given = [name for name in _OTHERS[program] if getattr(asked, name)]
    if given:
        raise UsageError(f"--param {given[0]}: {program} has no use of it; leave it out")
    _SIZED[program](asked)


def work_of(program: str, asked: Rounds, session: Any) -> Work:
    """The work of a client, whose data are there. Raises UsageError."""
    return _MADE[program](asked, session)


def _size(asked: Rounds) -> Size:
    size = key_values.size_of(asked.workload, asked.scale)
    given = {name: getattr(asked, name) for name in ("partitions", "reducers", "keys", "tasks")}
    return replace(size, **{name: number for name, number in given.items() if number})


def _problem(asked: Rounds) -> Problem:
    return learning.problem_of(asked.workload, asked.scale, asked.partitions, asked.columns)


def _pairs(asked: Rounds, session: Any) -> Work:
    """Pairs of keys and values, which are drawn anew in every round."""
    size = _size(asked)
    context = session.sparkContext
    workload = key_values.WORKLOADS[asked.workload]
    expected = workload.expected(key_values.table_of(context, size), size)

    def wrong(found: key_values.Found) -> str:
        if found == expected:
            return ""
        return f"the result is {found}, not {expected}"

    return Work(lambda: workload.run(context, size), wrong)


def _learning(asked: Rounds, session: Any) -> Work:
    """Data of MLlib, which are made once, and kept by Spark."""
    problem = _problem(asked)
    workload = learning.WORKLOADS[asked.workload]
    frame = workload.load(session, problem).persist()
    frame.count()

    def wrong(found: Any) -> str:
        if workload.is_right(found, session.sparkContext, problem):
            return ""
        return f"the result {found} is not what is found without MLlib"

    return Work(lambda: workload.run(frame, problem), wrong)


_SIZED: Mapping[str, Callable[[Rounds], Size | Problem]] = {PAIRS: _size, LEARNING: _problem}
_MADE: Mapping[str, Callable[[Rounds, Any], Work]] = {PAIRS: _pairs, LEARNING: _learning}
_OTHERS = {PAIRS: ("columns",), LEARNING: ("reducers", "keys", "tasks")}
"Parameters of the other programs."
