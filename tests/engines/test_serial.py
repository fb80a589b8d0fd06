"""The serial engine keeps the contract of engines."""

from __future__ import annotations

from hyperslab.testing import EngineTests
from hyperslab.testing.cases import WAYS
from tests.engines.images import IMAGES


class TestSerial(EngineTests):
    engine, slots, images = "serial", (1, 1), IMAGES
    every = frozenset(WAYS) - {"end", "crew"}
