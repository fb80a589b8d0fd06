"""What has to hold of loads in Spark: ratios of what a byte costs, round by round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.gates import Gates
from benchmarks.spark_reader import PROCESSES
from benchmarks.spark_slopes import Load, Ratio, ratio
from benchmarks.spark_ways import BLOCKS, H5PY, H5SPARK, MAP_IN_ARROW, MPI, ROWS, SOURCE


class Rule(NamedTuple):
    """A ratio of slopes, and its limit."""

    what: str
    kind: str
    above: str
    below: str
    times: float
    "By what the ratio is multiplied."
    at_most: float | None = None
    at_least: float | None = None


RULES = (
    Rule(
        f"{BLOCKS} / (h5py's / {PROCESSES}), plain", "plain", BLOCKS, H5PY, PROCESSES, at_most=1.3
    ),
    Rule(f"{BLOCKS} / MPI, plain", "plain", BLOCKS, MPI, 1, at_most=1.2),
    Rule(f"{SOURCE} / {MAP_IN_ARROW}, plain", "plain", SOURCE, MAP_IN_ARROW, 1, at_most=1.15),
    Rule(f"{H5SPARK} / {BLOCKS}, gzip", "gzip", H5SPARK, BLOCKS, 1, at_least=2),
    Rule(f"{H5SPARK} / {ROWS}, gzip", "gzip", H5SPARK, ROWS, 1, at_least=1.5),
    Rule(f"{H5SPARK} / {ROWS}, plain", "plain", H5SPARK, ROWS, 1),
    Rule(f"{H5SPARK} / {BLOCKS}, plain", "plain", H5SPARK, BLOCKS, 1),
    Rule(f"{BLOCKS} / MPI, gzip", "gzip", BLOCKS, MPI, 1),
)


class Judged(NamedTuple):
    """A rule and what was found."""

    rule: Rule
    found: Ratio | None

    @property
    def limit(self) -> str:
        """In words; '' where none is set."""
        if self.rule.at_most is not None:
            return f"at most {self.rule.at_most:g}"
        return "" if self.rule.at_least is None else f"at least {self.rule.at_least:g}"


def judge(loads: Sequence[Load], gates: Gates, ways: Sequence[str]) -> list[Judged]:
    """Print every ratio of ways that were measured; those that have a limit are gates."""
    judged = []
    for rule in RULES:
        if rule.above not in ways or rule.below not in ways:
            print(f"not judged, since one of the two was left out: {rule.what}", flush=True)
            continue
        found = ratio(loads, rule.kind, rule.above, rule.below)
        if found is not None:
            found = found.times(rule.times)
        judged.append(Judged(rule, found))
        if rule.at_most is not None:
            gates.at_most(rule.what, found.middle if found else math.inf, rule.at_most)
        elif rule.at_least is not None:
            gates.at_least(rule.what, found.middle if found else None, rule.at_least)
        else:
            print(
                f"     {rule.what} (no gate): {f'{found.middle:.2f}' if found else 'not measured'}",
                flush=True,
            )
    return judged
