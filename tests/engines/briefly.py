"""A probe that takes a moment: numbers of every kind, none of which means much."""

from __future__ import annotations

from hyperslab.storage.probing.preparing import Effort, Options

BRIEF_PROBE = Options(2**20, Effort(0.005, 1, 1, 60.0), most_clients=1)
