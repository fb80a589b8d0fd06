"""One picture of storage: this machine's disk and memory, and an emulated tier of every kind.

    python -m benchmarks.storage_picture [--disk DIR] [--output docs/storage.svg]

Each tier is made, measured by `hyperslab probe`, and removed. A network tier needs root, and is
left out without.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.emulated import MEMORY, emulated
from hyperslab.report.probed.lines import headline
from hyperslab.report.probed.overview import overview_svg
from hyperslab.storage.emulation.settings import NETWORK, Settings
from hyperslab.storage.probing.measuring import probe
from hyperslab.storage.probing.preparing import Effort, Options
from hyperslab.storage.probing.records import Probed
from hyperslab.storage.tiers.looking import look
from hyperslab.storage.whole import replace_text

TITLE = "Storage of this machine, and emulated tiers on it, as they were measured"
MB = 1_000_000
BANDWIDTH, TARGETS, STRIPE_NBYTES = 100 * MB, 4, 1 << 16
OPTIONS = Options(effort=Effort(0.1, 5, 3, 30.0), most_clients=8)


def tiers() -> Iterator[tuple[str, Settings]]:
    """Kinds and settings of the tiers that are made."""
    yield "throttled", Settings(bandwidth=BANDWIDTH, latency_s=0.002)
    yield "throttled", Settings(bandwidth=BANDWIDTH, write_back_nbytes=64 * MB)
    yield "volatile", Settings(bandwidth=BANDWIDTH, fast_nbytes=32 * MB)
    yield "metadata", Settings(metadata_s=0.002)
    for count in (1, 2, TARGETS):
        yield (
            "striped",
            Settings(
                bandwidth=BANDWIDTH / TARGETS,
                targets=TARGETS,
                stripe_count=count,
                stripe_nbytes=STRIPE_NBYTES,
            ),
        )
    if os.geteuid() == 0:
        yield NETWORK, Settings(bandwidth=BANDWIDTH / 2)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--disk", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--output", type=Path, default=Path("docs/storage.svg"))
    arguments = parser.parse_args()
    found = [_probed(arguments.disk), _probed(MEMORY)]
    for kind, settings in tiers():
        with emulated(kind, settings) as place:
            found.append(_probed(place))
    replace_text(arguments.output, overview_svg(TITLE, found))
    print(f"{arguments.output}: {len(found)} tiers")


def _probed(place: Path) -> Probed:
    found = probe(place, look(place), OPTIONS, lambda done, total: None)
    print("\n".join(headline(found)), flush=True)
    return found


if __name__ == "__main__":
    main()
