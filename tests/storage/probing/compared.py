"""Rates of fio and of ours, measured in turns."""

from __future__ import annotations

import shutil

import pytest

from hyperslab.storage.probing import fio
from hyperslab.storage.probing.bench import Bench, Setting
from hyperslab.storage.probing.records import Compared, Measured

ATTEMPTS = 3
"Other programs may slow one of two measurements; never always the same one."

needs_fio = pytest.mark.skipif(
    shutil.which("fio") is None, reason="fio is not here; install the Debian package fio"
)


def in_turns(bench: Bench, setting: Setting, times: int) -> Compared:
    """Both rates of a point, in turns; who begins changes, too."""
    bench.scout(setting)
    rates: dict[str, list[float]] = {"ours": [], "fio": []}

    def measure(who: str) -> None:
        rate = fio.rate(bench, setting) if who == "fio" else bench.rates(setting)[setting.what]
        rates[who].append(rate)

    for turn in range(times):
        for who in sorted(rates, reverse=turn % 2 == 0):
            measure(who)
    return Compared(*setting, *(Measured(tuple(rates[who])) for who in ("ours", "fio")))
