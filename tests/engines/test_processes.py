"""The processes engine keeps the contract of engines."""

from __future__ import annotations

from hyperslab.testing import EngineTests
from tests.engines.images import IMAGES


class TestProcesses(EngineTests):
    engine, images, stops_late_tasks = "processes", IMAGES, True


class TestProcessesWithThreads(EngineTests):
    engine, slots, stops_late_tasks = "processes", (2, 2), True
