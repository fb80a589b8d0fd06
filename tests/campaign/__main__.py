"""The campaign: `python -m tests.campaign --rounds 200 --seed 1`, or a round of it again with
`--only`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
from pathlib import Path

from tests.campaign import playing, table
from tests.campaign.jobs import SLOTS
from tests.campaign.playing import Verdict
from tests.campaign.scenarios import SCENARIOS, Wish


def main() -> int:
    """Play the rounds; exit status 1 when one of them is not right."""
    asked = _arguments().parse_args()
    folder = Path(asked.folder or tempfile.mkdtemp(prefix="hyperslab-campaign-"))
    indices = [asked.only] if asked.only is not None else list(range(1, asked.rounds + 1))
    wish = Wish(asked.scenario, asked.engine)
    lock = threading.Lock()

    def tell(verdict: Verdict) -> None:
        with lock:
            print(table.describe(verdict, asked.seed, wish), flush=True)

    verdicts = playing.play_all(asked.seed, indices, folder, asked.at_a_time, wish, tell)
    wrong = [verdict for verdict in verdicts if not verdict.is_right]
    print(f"\n{table.render(verdicts)}")
    if not wrong:
        shutil.rmtree(folder)
        return 0
    print(f"\n{len(wrong)} of {len(verdicts)} rounds are not right:")
    print("\n".join(table.describe(verdict, asked.seed, wish) for verdict in wrong))
    return 1


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument(
        "--rounds",
        type=int,
        default=100,
        help="How many; round I is the same however many there are.",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="Play this round alone.")
    parser.add_argument(
        "--scenario",
        default="",
        choices=("", *SCENARIOS),
        help="Play this scenario in every round.",
    )
    parser.add_argument(
        "--engine", default="", choices=("", *SLOTS), help="Play every round on this engine."
    )
    parser.add_argument(
        "--at-a-time", type=int, default=3, help="Rounds that are played at the same time."
    )
    parser.add_argument(
        "--folder", help="Where to work; what is not right stays there. Else a temporary directory."
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
