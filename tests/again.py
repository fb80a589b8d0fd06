"""Plays tests once more that failed while others ran beside them: `python -m tests.again CACHE`.

A machine that is busy with something else can fail a test of waiting or of killing without a fault
of ours; a fault is there each time. So the few that failed are played again, with nothing beside
them, and are named: more than a few are failures as they are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

MOST = 3
"Number of failed tests that are played once more."


def failed(cache: Path) -> list[str]:
    """Names of the tests that failed last, from the cache folder of pytest."""
    path = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(path.read_text())) if path.exists() else []


def main(cache: Path) -> int:
    """Play them; the exit code is that of pytest, or 1 where nothing is played."""
    names = failed(cache)
    if not 1 <= len(names) <= MOST:
        return 1
    print("Failed beside others, and played once more alone:", *names, sep="\n  ", flush=True)
    return int(pytest.main([*names, "-p", "no:cacheprovider"]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
