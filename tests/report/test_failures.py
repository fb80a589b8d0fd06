"""What continues a run after failures."""

from __future__ import annotations

import pytest

from hyperslab.plan.failure import DIED
from hyperslab.report.failures import Failed, flags_to_resume, kept_words

BOTH = ["--resume", "--accept-changed-function"]


@pytest.mark.parametrize(
    ("error", "message", "flags"),
    [
        (DIED, "the worker was killed by SIGSEGV", BOTH),
        (DIED, "the worker was killed by SIGKILL (kill -9, or ...)", ["--resume"]),
        ("FormatError", "the file says SIGSEGV", ["--resume"]),
    ],
)
def test_a_function_that_crashed_its_process_has_to_be_edited(
    error: str, message: str, flags: list[str]
) -> None:
    failures = [Failed("in.nii [0:4]", error, message, attempts=3)]
    assert flags_to_resume(failures, done=4) == flags
    assert bool(kept_words(failures, done=4)) == (flags == BOTH)
    assert flags_to_resume(failures, done=0) == ["--resume"]
    assert flags_to_resume(failures, done=4, has_function=False) == ["--resume"]
    assert kept_words(failures, done=4, has_function=False) == ""
