"""Compare hyperslab with the libraries of the formats, on random files: `make compare NUMBER=20000
SEED=1`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence

from tests.comparison.cases import examine
from tests.comparison.datasets.kinds import KINDS
from tests.comparison.tally import Tally, differences, table
from tests.comparison.workers import Outcome, Task, outcomes

_TOLD_EVERY_S = 10.0
_LIMIT_S = 60.0
"Seconds that a case may take; most take a twentieth of one."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases that are asked for; 1 if anything differs, crashes, hangs or is refused without
    a reason.
    """
    asked = _parsed(arguments)
    numbers = range(asked.first, asked.first + asked.number) if asked.only is None else [asked.only]
    task = Task(examine, asked.seed, asked.kind, asked.limit)
    processes = min(asked.processes, len(numbers))
    tally = _told(outcomes(task, numbers, processes), len(numbers))
    for line in (*table(tally), *differences(tally, asked.seed, asked.kind)):
        print(line)
    if tally.failed:
        print(
            f"\n{len(tally.failed)} of {tally.cases:,} cases failed: each is shown again by its"
            " command above"
        )
    return 1 if tally.failed else 0


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.comparison", description=__doc__)
    parser.add_argument("--number", type=int, default=1000, help="how many cases")
    parser.add_argument("--seed", type=int, default=1, help="cases of another seed are other cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", type=int, help="this one case, as a failure names it")
    parser.add_argument(
        "--kind", default="", choices=["", *KINDS], help="cases of one kind of file alone"
    )
    parser.add_argument(
        "--processes", type=int, default=2, help="0: in this process, for a debugger"
    )
    parser.add_argument(
        "--limit", type=float, default=_LIMIT_S, help="seconds that a case may take"
    )
    return parser.parse_args(arguments)


def _told(found: Iterable[Outcome], number: int) -> Tally:
    """Add up outcomes, with a line now and then."""
    tally, begun = Tally(), time.monotonic()
    told = begun
    for outcome in found:
        tally.add(outcome)
        now = time.monotonic()
        if now - told >= _TOLD_EVERY_S:
            told, rate = now, tally.cases / (now - begun)
            progress = (
                f"{tally.cases:,} of {number:,} cases, {rate:.0f} per second, {len(tally.failed)}"
                " failed"
            )
            print(progress, file=sys.stderr, flush=True)
    seconds = time.monotonic() - begun
    print(
        f"{tally.cases:,} cases in {seconds:.0f} s, {tally.cases / max(seconds, 0.001):.1f} per"
        " second\n"
    )
    return tally


if __name__ == "__main__":
    sys.exit(main())
