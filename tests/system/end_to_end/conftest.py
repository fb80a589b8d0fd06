"""What tests of many small conversions share."""

from __future__ import annotations

import os

import pytest

import hyperslab.cli.report  # noqa: F401  # it keeps the function that small conversions do without
from hyperslab.driver import submission
from hyperslab.machine import pressure
from hyperslab.storage import renaming


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports, waiting for the disk and counting what other processes use take longer than small
    conversions, and have tests of their own.
    """
    monkeypatch.setattr(submission, "write_report", lambda *_: None)
    monkeypatch.setattr(renaming, "synchronise", lambda *_, **__: None)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(pressure, "_own_s", lambda *_: None)
