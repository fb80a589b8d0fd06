"""How long a probe takes on storage of any speed, by a clock that such storage moves on."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from hyperslab.report.probed.lines import headline
from hyperslab.storage.probing import bench, fio, measuring, preparing
from hyperslab.storage.probing.clients import Done, Order
from hyperslab.storage.probing.measuring import probe
from hyperslab.storage.probing.planning import EXTRA, NEEDED, WANTED, Step, chosen
from hyperslab.storage.probing.preparing import FULL, QUICK, Effort, Options
from hyperslab.storage.probing.records import Probed
from hyperslab.storage.tiers.tier import Tier


@dataclass
class Storage:
    """A device that all clients share, and its clock."""

    rate: float
    "Bytes per second."
    latency_s: float
    "Time that every request takes besides."
    name_s: float
    "Time of an operation on a name; one is served at a time."
    memory_nbytes: int = 0
    "Bytes of each order that memory before the device takes at once."
    now_s: float = 1000.0

    def clients(self, *_: object) -> Storage:
        """Take the place of the processes that measure."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing, as nothing was started."""

    def one(self, order: Order) -> Done:
        return self.together([order])[0]

    def together(self, orders: Sequence[Order]) -> list[Done]:
        """Carry out what clients were told to do, at no time but that of the storage."""
        began_s = self.now_s
        done = [self._done(order, len(orders)) for order in orders]
        self.now_s = began_s + max(taken_s for taken_s, _ in done)
        return [Done({"resident": 0.0}, self._result(began_s, *one)) for one in done]

    def _result(self, began_s: float, taken_s: float, amount: float) -> dict[str, Any]:
        start, end = int(began_s * 1e9), int((began_s + taken_s) * 1e9)
        times = {"start_ns": start, "written_ns": end, "end_ns": end, "elapsed_ns": end - start}
        marks = [(start, 0), (end, amount)]
        each_ns = (end - start) / max(1, amount)
        counts = {"nbytes": amount, "count": amount, "median_ns": each_ns, "p95_ns": each_ns}
        return {**times, **counts, "marks": marks}

    def _done(self, order: Order, clients: int) -> tuple[float, float]:
        """Seconds that an order takes, and bytes or operations that are done."""
        given = order.arguments
        if order.name == "names":
            return given["count"] * clients * self.name_s, given["count"]
        if order.name == "opening":
            return self._until(given["seconds"], self.name_s, 10**9)
        nbytes = sum(size for _, _, size in given["segments"])
        if order.name == "small_reads":
            return self._until(given["seconds"], self.latency_s, nbytes // 2**16)
        request = given.get("request_nbytes", 2**20)
        each_s = self.latency_s + min(request, nbytes) * clients / self.rate
        requests = -(-nbytes // request)
        if order.name != "read":
            slow_nbytes = max(0, nbytes * clients - self.memory_nbytes)
            return requests * self.latency_s + slow_nbytes / self.rate, nbytes
        taken_s, done = self._until(given["seconds"], each_s, requests)
        return taken_s, min(nbytes, done * request)

    def _until(self, seconds: float, each_s: float, most: int) -> tuple[float, float]:
        """Time and number of operations, the last of which ends when the time is over."""
        count = min(most, int(seconds / max(each_s, 1e-7)) + 1)
        return count * max(each_s, 1e-7), count


def probe_of(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    storage: Storage,
    effort: Effort,
    with_fio: bool = False,
) -> Probed:
    """What is found of such storage, by its clock."""
    clock = SimpleNamespace(monotonic=lambda: storage.now_s, time=time.time)
    for module in (bench, measuring):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(preparing, "Clients", storage.clients)
    tier = Tier(str(place), socket.gethostname(), "ssd", device="8:0")
    options = Options(effort=effort, most_clients=4, with_fio=with_fio)
    return probe(place, tier, options, lambda *_: None)


@pytest.mark.parametrize("effort", [FULL, QUICK])
@pytest.mark.parametrize("rate", [3e5, 2e6, 1e8, 1e10])
@pytest.mark.parametrize("latency_s", [1e-6, 0.02])
@pytest.mark.parametrize("name_s", [1e-5, 0.05])
def test_a_probe_ends_in_time_on_storage_of_any_speed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    effort: Effort,
    rate: float,
    latency_s: float,
    name_s: float,
) -> None:
    found = probe_of(tmp_path, monkeypatch, Storage(rate, latency_s, name_s), effort)
    assert found.took_s <= 1.15 * effort.budget_s
    assert set(found.curves) == {
        *("read-cold", "read-cached", "write", "write-cached", "write-direct")
    }
    assert {curve.single.clients for curve in (*found.curves.values(), *found.names.values())} == {
        1
    }
    least = effort.least_repetitions
    if latency_s > 0.01 and name_s > 0.01:
        least -= 1
    assert found.repetitions >= least
    is_slow = rate < 1e7 or latency_s > 0.01 or name_s > 0.01
    if not is_slow:
        assert found.repetitions == effort.repetitions
    if found.repetitions < effort.repetitions:
        assert any("time was up" in note for note in found.notes)


@pytest.mark.parametrize("effort", [FULL, QUICK])
def test_memory_before_a_slow_device_does_not_make_a_probe_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effort: Effort
) -> None:
    found = probe_of(tmp_path, monkeypatch, Storage(1e7, 1e-6, 1e-5, 32 * 10**6), effort)
    assert found.took_s <= 1.15 * effort.budget_s
    assert found.repetitions >= effort.least_repetitions


@pytest.mark.parametrize("rate", [3e5, 2e6, 1e8])
def test_fio_is_compared_where_there_was_time_for_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: float
) -> None:
    for name in ("require", "rate", "latency"):
        monkeypatch.setattr(fio, name, lambda *_, **given: 1.0)
    storage = Storage(rate, 0.02, 1e-5)
    found = probe_of(tmp_path, monkeypatch, storage, QUICK, with_fio=True)
    assert {"write", "cold"} <= {one.what for one in found.compared}
    assert all(one.ours.values and one.fio.values for one in found.compared)
    assert any(line.startswith("  fio ") for line in headline(found))


def test_what_is_missed_least_is_left_out_first() -> None:
    steps = [Step(lambda: None, rank, 2.0) for rank in (EXTRA, WANTED, NEEDED, EXTRA)]
    assert [step.rank for step in chosen(steps, 5, 3, 100.0).steps] == [0, 1, 2, 2]
    plan = chosen(steps, 5, 3, 18.0)
    assert [step.rank for step in plan.steps] == [NEEDED, WANTED, EXTRA]
    assert (plan.repetitions, plan.left_out) == (3, 1)
    least = chosen(steps, 5, 3, 1.0)
    assert [step.rank for step in least.steps] == [NEEDED]
    assert (least.repetitions, least.left_out) == (1, 3)
