"""Public conformance suites: a new format or engine is tested by a subclass and a fixture.

They need pytest and hypothesis, so each is imported at its first use: workers that only import
`testing.functions` do without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyperslab.testing.engines import EngineTests
    from hyperslab.testing.formats import FormatTests

_PLACES = {"EngineTests": "engines", "FormatTests": "formats"}
__all__ = ["EngineTests", "FormatTests"]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"hyperslab.testing.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'hyperslab.testing' has no attribute '{name}'")
