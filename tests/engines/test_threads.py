"""The threads engine keeps the contract of engines."""

from __future__ import annotations

from hyperslab.testing import EngineTests
from tests.engines.images import IMAGES


class TestThreads(EngineTests):
    engine, images = "threads", IMAGES
