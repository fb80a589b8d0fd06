"""A laboratory of links: nodes on this host alone, whose links are slow, distant or lossy.

```python
import subprocess

from hyperslab.network.lab import laboratory, parse_spec

spec = parse_spec('[nodes.scheduler]\\n[nodes.w1]\\nrate = "100Mbit"', "spec")
with laboratory(spec) as lab:
    subprocess.run([*lab.prefix("w1"), "ping", "-c", "3", "scheduler"], check=True)
```
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyperslab.network.lab.changing import change
    from hyperslab.network.lab.making import laboratory, make
    from hyperslab.network.lab.removing import remove
    from hyperslab.network.lab.spec import load_spec, parse_spec

__all__ = ["change", "laboratory", "load_spec", "make", "parse_spec", "remove"]

_PLACES = {
    "change": "changing",
    "laboratory": "making",
    "make": "making",
    "remove": "removing",
    "load_spec": "spec",
    "parse_spec": "spec",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use: who asks for backends alone reads no specs."""
    if name in _PLACES:
        return getattr(import_module(f"hyperslab.network.lab.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'hyperslab.network.lab' has no attribute '{name}'")
