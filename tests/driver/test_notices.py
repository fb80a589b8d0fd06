"""What is told of failures while a run goes on."""

from __future__ import annotations

from hyperslab.driver.notices import Notices
from hyperslab.plan.failure import DIED, Failure
from hyperslab.report.failures import failed
from hyperslab.report.progress import Quiet

FAILURE = Failure(DIED, "the worker process was killed", "")


class Heard(Quiet):
    """Progress that keeps whether each failure is said to be tried again."""

    def __init__(self) -> None:
        self.again: list[bool] = []

    def failed(self, label: str, reason: str, will_retry: bool, place: str) -> None:
        self.again.append(will_retry)


def test_nothing_is_tried_again_in_a_run_that_stops() -> None:
    """As that of a rank of MPI which has died, and so ends the others."""
    heard = Heard()
    notices = Notices(heard)
    notices.take(failed("a.nii", FAILURE, 1), FAILURE, is_last=False)
    notices.stop()
    notices.end(())
    assert heard.again == [False], "told once"


def test_what_another_attempt_has_mended_was_tried_again() -> None:
    heard = Heard()
    notices = Notices(heard)
    notices.take(failed("a.nii", FAILURE, 1), FAILURE, is_last=False)
    notices.end([FAILURE])
    assert heard.again == [], "the result of the run tells of it"
    notices.end(())
    assert heard.again == [True]
