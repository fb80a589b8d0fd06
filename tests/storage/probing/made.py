"""Probed tiers that are made up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hyperslab.storage.probing.records import (
    Compared,
    Curve,
    Latency,
    Measured,
    Opening,
    Point,
    Probed,
)
from hyperslab.storage.tiers.tier import Tier


def curve(rates: Mapping[int, Sequence[float]], nbytes: int = 2**20) -> Curve:
    """Curve of these values by the number of clients."""
    return Curve(tuple(Point(n, nbytes, Measured(tuple(own))) for n, own in rates.items()))


def probed(**given: Any) -> Probed:
    """A tier with something of everything."""
    tier = Tier("/data", "here", "ssd", file_system="ext4", source="/dev/sda1", device="8:0")
    known: dict[str, Any] = {
        "path": "/data",
        "host": "here",
        "at_s": 1.7e9,
        "took_s": 40.0,
        "tier": json.loads(json.dumps(tier.as_json())),
        "media": tuple(tier.media),
        "size_nbytes": 2**28,
        "repetitions": 3,
        "how_cold": "posix_fadvise",
        "curves": {
            "read-cold": curve({1: (1e8, 1.1e8, 1.2e8), 2: (2e8, 2.1e8, 2.2e8)}),
            "read-cached": curve({1: (5e9, 5e9, 5e9)}),
            "write": curve({1: (5e7, 5e7, 6e7), 2: (5e7, 6e7, 6e7)}),
            "write-cached": curve({1: (2e9, 2e9, 2e9)}),
        },
        "latency": {"cold": Latency(4096, Measured((1e-4,) * 3), Measured((2e-4,) * 3))},
        "names": {
            name: curve({1: (3e4, 3e4, 3e4), 2: (5e4, 5e4, 5e4)}, 0)
            for name in ("create", "stat", "open", "rename", "unlink")
        },
        "opening": (
            Opening(1, Measured((5e-6,) * 3), Measured((5e-7,) * 3)),
            Opening(2**20, Measured((1.1e-4,) * 3), Measured((1e-4,) * 3)),
        ),
        "nodes": {"node0": {"read-cold": Measured((1e8,) * 3)}},
        "compared": (Compared("write", 1, 2**20, Measured((5e7,)), Measured((4e7, 6e7))),),
        "notes": ("a note",),
    }
    return Probed(**{**known, **given})
