"""Memory that is short, planted: a control group too small for what the function takes, so that its
workers die.
"""

from __future__ import annotations

import subprocess
import sys

from tests.system.verdicts.groups import group, inside

MIB = 2**20
SCRIPT = """
import time
import numpy as np
import hyperslab
from tests.system.verdicts.planted import TOTAL, run_and_judge

def swell(block):
    held = []
    for _ in range(100):  # 1.6 GB in 5 seconds: the kernel takes a moment to free what one held
        held.append(np.ones(2**21))
        time.sleep(0.05)
    return block

pipeline = hyperslab.Pipeline(np.ones((2, 8))).map(swell).reduce(TOTAL)
result, verdict = run_and_judge(pipeline, rule=hyperslab.Rule("blocks", (2,)), retries=0)
assert result.state == "failed"
assert verdict.findings[0].rule == "memory-pressure"
"""


def test_a_group_that_is_too_small_is_named() -> None:
    limit = str(768 * MIB)  # of which the driver takes far less than each worker
    with group(
        "memory", {"memory.limit_in_bytes": limit}, {"memory.max": limit, "memory.swap.max": "0"}
    ) as small:
        line = [*inside(small), sys.executable, "-c", SCRIPT]
        done = subprocess.run(line, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "out-of-memory killer ended" in done.stdout
    assert "fewer --workers" in done.stdout
