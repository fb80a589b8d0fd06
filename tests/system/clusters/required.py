"""What a test needs of this machine: without it the test is skipped, loudly, or fails if CI is
set. What a kernel refuses nobody can install, so that its tests are skipped in CI, too.
"""

from __future__ import annotations

import os
from types import ModuleType

import pytest

from hyperslab.storage.accounting import bpf

REFUSED = "the kernel takes no program"
"How a sentence begins on a kernel that does not let anybody look at calls."


def required(missing: str) -> None:
    """Go on if nothing is missing; otherwise skip for this reason, or fail if CI is set."""
    if not missing:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI is set, so that nothing may be skipped, but {missing}", pytrace=False)
    pytest.skip(missing)


def required_to_count(way: ModuleType) -> None:
    """Go on where operations on files can be counted in a way."""
    missing = way.why_not()
    if way is bpf and missing.startswith(REFUSED):
        pytest.skip(missing)
    required(missing)
