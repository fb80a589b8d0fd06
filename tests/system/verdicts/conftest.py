"""One planted run at a time, also when several processes run the tests: the bottleneck is to be the
planted one.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # The processes of one test run have folders beside one another.
    with (tmp_path_factory.getbasetemp().parent / "alone").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield
