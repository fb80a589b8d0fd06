"""What a test needs of this machine: without it the test is skipped, loudly, or fails if CI is
set.
"""

from __future__ import annotations

import os

import pytest


def required(missing: str) -> None:
    """Go on if nothing is missing; otherwise skip for this reason, or fail if CI is set."""
    if not missing:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI is set, so that nothing may be skipped, but {missing}", pytrace=False)
    pytest.skip(missing)
