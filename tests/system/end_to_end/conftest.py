"""What tests of many small conversions share."""

from __future__ import annotations

import pytest

from hyperslab.driver import submission
from hyperslab.storage import renaming


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports and waiting for the disk take longer than small conversions, and have tests of their
    own.
    """
    monkeypatch.setattr(submission, "write_report", lambda *_: None)
    monkeypatch.setattr(renaming, "synchronise", lambda *_, **__: None)
