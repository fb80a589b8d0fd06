"""Links: the laboratory that a trial runs in, as what factors make of their levels."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from hyperslab.apps.netlab.keeper import CLIENT, SCHEDULER
from hyperslab.errors import UsageError
from hyperslab.network.lab.backends.choosing import choose, require_means
from hyperslab.network.lab.link import Link, Mode, mode_for
from hyperslab.network.lab.spec import NO_RATE, Backend, LabSpec, NodeSpec

Place = Literal["none", "scheduler", "worker", "all"]
PLACES: tuple[str, ...] = get_args(Place)
SLOW_WORKER = "w1"
"Node of the worker that is the slow one, where one of them is."
_SLOW = re.compile(rf"({'|'.join(PLACES[1:])})(?: (\S+))?")
_DELAY = re.compile(r"\d+(\.\d+)?(us|ms|s)")
_LOSS = re.compile(r"(\d+(?:\.\d+)?)%")


@dataclass(frozen=True, slots=True)
class Slow:
    """Links that are worse than the others, and how."""

    place: str = PLACES[0]
    "none, scheduler, worker (one of them), or all of these."
    rate: str = ""
    delay: str = ""
    loss: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Slow:
        """'scheduler', 'worker 5ms', 'all 2%' or 'worker 100Mbit'. Raises ValueError."""
        if text == PLACES[0]:
            return cls()
        match = _SLOW.fullmatch(text)
        if match is None:
            raise ValueError(
                f"'{text}' names no links: give none, or scheduler, worker or all, and a rate, a"
                " delay or a loss behind it, such as 'worker 5ms' or 'worker 2%'"
            )
        place = match[1]
        fault = match[2] or ""
        if loss := _LOSS.fullmatch(fault):
            return cls(place, loss=float(loss[1]) / 100)
        if _DELAY.fullmatch(fault):
            return cls(place, delay=fault)
        slow = cls(place, rate=fault)
        try:
            NodeSpec(rate=fault or None)
        except ValueError as error:
            raise ValueError(f"'{fault}' is no rate, delay (5ms) or loss (2%)") from error
        return slow

    def over(self, node: NodeSpec, rate: str) -> NodeSpec:
        """The link of a node, made worse; `rate` where only a place is named."""
        changes: dict[str, str | float] = {}
        if self.delay:
            changes["delay"] = self.delay
        elif self.loss:
            changes["loss"] = self.loss
        else:
            changes["rate"] = self.rate or rate
        return node.model_copy(update=changes)


@dataclass(frozen=True, slots=True)
class Links:
    """A laboratory with a scheduler, a client and workers."""

    workers: int = 3
    rate: str = NO_RATE
    "Rate of every link; none: as much as the machine carries."
    delay_ms: float = 0.0
    "Time of one way, of what every node sends."
    slow: Slow = Slow()
    slow_rate: str = NO_RATE
    "Rate of links that are named as slow without more."

    def nodes(self) -> dict[str, NodeSpec]:
        """All nodes; the first worker is the slow one, where one of them is. Raises ValueError."""
        delay = f"{self.delay_ms}ms" if self.delay_ms else None
        names = [SCHEDULER, CLIENT, *(f"w{number}" for number in range(1, self.workers + 1))]
        nodes = {name: NodeSpec(rate=self.rate, delay=delay) for name in names}
        for name in self._slow_names(names):
            nodes[name] = self.slow.over(nodes[name], self.slow_rate)
        return nodes

    def _slow_names(self, names: list[str]) -> list[str]:
        match self.slow.place:
            case "scheduler":
                return [SCHEDULER]
            case "worker":
                return [SLOW_WORKER]
            case "all":
                return [name for name in names if name != CLIENT]
        return []

    def all_links(self) -> list[Link]:
        """Both directions of all links."""
        nodes = self.nodes().values()
        return [link for node in nodes for link in (node.up_link(), node.down_link())]


@dataclass(frozen=True, slots=True)
class Means:
    """How the links of an experiment are made: all of them alike."""

    backend: Backend
    mode: Mode
    tolerance: float

    def spec(self, links: Links, name: str, seed: int) -> LabSpec:
        """The laboratory of a trial."""
        return LabSpec(
            name=name,
            backend=self.backend,
            mode=self.mode,
            tolerance=self.tolerance,
            seed=seed,
            nodes=links.nodes(),
        )


def means_of(asked: Iterable[Links], backend: str, tolerance: float) -> Means:
    """What makes the links of all trials, which is one and the same, as results of two cannot be
    compared. Raises UsageError where nothing here does.
    """
    require_means()
    links = [link for one in asked for link in one.all_links()]
    mode = mode_for(links)
    chosen = cast(Backend, choose(backend, links, mode))
    return Means(chosen, mode, tolerance)


def with_links(links: Links | None, **changes: object) -> Links:
    """Other links, from none on."""
    return replace(links or Links(), **changes)  # type: ignore[arg-type]


def require_slow(text: str) -> str:
    """The text of a level, if it names links. Raises ValueError."""
    Slow.parse(text)
    return text


def require_rate(text: str) -> str:
    """The text of a level, if it is a rate. Raises ValueError."""
    try:
        NodeSpec(rate=text)
    except (ValueError, UsageError) as error:
        raise ValueError(f"'{text}' is no rate, such as 100Mbit, or {NO_RATE}") from error
    return text
