"""Storage that is slow, planted: a throttled disk, and none."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from hyperslab import Pipeline
from tests.system.verdicts.planted import TOTAL, run_and_judge, save
from tests.system.verdicts.throttle import evict, throttled

MIB = 2**20


THROTTLED = """
import sys, time
from hyperslab import Pipeline
from hyperslab.report.verdict import judge
from tests.system.verdicts.planted import TOTAL, first, run_and_judge

source, probe = sys.argv[1:]
result, verdict = run_and_judge(Pipeline(source).reduce(TOTAL))
# It waits for storage; whether more readers would help is seen in some runs and not in others.
assert first(verdict) in ("storage-bandwidth", "storage-wait")
start = time.monotonic()
nbytes = len(open(probe, "rb").read())
result.trace.meta["probe"] = {"read_nbytes_per_s": nbytes / (time.monotonic() - start)}
verdict = judge(result.trace, result.summary)
print(verdict.paragraph)
assert first(verdict) == "storage-bandwidth"
"""


def inputs(folder: Path) -> str:
    """Eight files of 4 MiB that are not in the page cache: files, so that none is read ahead with
    another.
    """
    for number in range(8):
        evict(save(folder / "in" / f"{number}.nii", (2048, 1024)))
    return f"{folder}/in/*.nii"


def test_a_throttled_disk_is_named_with_its_rate(tmp_path: Path) -> None:
    source, probe = inputs(tmp_path), save(tmp_path / "probe.nii", (2048, 1024, 4))
    evict(probe)
    with throttled(tmp_path, 12 * MIB) as slowly:
        line = [*slowly, sys.executable, "-c", THROTTLED, source, str(probe)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=100, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    paragraph = done.stdout.splitlines()[-1]
    assert re.search(r"got 1\d\.\d MB/s.*the device gave 1\d\.\d MB/s", paragraph)
    assert "half the --workers would" in paragraph


def test_the_same_run_from_the_page_cache_is_not_limited_by_storage(tmp_path: Path) -> None:
    source = inputs(tmp_path)
    for path in (tmp_path / "in").iterdir():
        path.read_bytes()
    _, verdict = run_and_judge(Pipeline(source).reduce(TOTAL))
    assert not any(f.rule.startswith(("storage", "metadata")) for f in verdict.findings)
