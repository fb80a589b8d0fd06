"""What tests of whole runs share."""

from __future__ import annotations

import pytest

from tests.system.end_to_end import command


@pytest.fixture
def on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers take longer to start than small runs take: where it is not the engine that is tested,
    runs that name none are on threads.
    """
    monkeypatch.setattr(command, "is_light", True)
