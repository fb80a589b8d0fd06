"""Public conformance suites: a new format or engine is tested by a subclass and a fixture."""

from __future__ import annotations

from hyperslab.testing.formats import FormatTests

__all__ = ["FormatTests"]
