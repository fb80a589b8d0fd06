"""Settings: what a tier is asked to be like, and the kinds of tiers that there are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from hyperslab.errors import UsageError
from hyperslab.units import show_bytes, show_rate, show_seconds

NETWORK = "network"
"The kind of tier that is no mount of our own program."
KINDS = {
    "throttled": "a device of limited bandwidth",
    "volatile": "memory that is filled before a slow medium",
    "metadata": "a metadata server that serves one operation at a time",
    "striped": "a store that lays files over several targets",
    NETWORK: "a network file system behind a link of limited bandwidth",
}
"Kinds of tiers, and what each is."
_NEEDED = {
    "throttled": ("bandwidth",),
    "volatile": ("bandwidth", "fast_nbytes"),
    "metadata": ("metadata_s",),
    "striped": ("bandwidth", "targets"),
    NETWORK: ("bandwidth",),
}
_OF_NETWORK = frozenset(("bandwidth",))
"Fields that a network file system can be asked for."
FLAGS = {
    "bandwidth": "--bandwidth",
    "write_bandwidth": "--write-bandwidth",
    "latency_s": "--latency",
    "metadata_s": "--metadata",
    "write_back_nbytes": "--write-back",
    "fast_nbytes": "--fast",
    "targets": "--targets",
    "stripe_count": "--stripe-count",
    "stripe_nbytes": "--stripe-size",
    "page_cache": "--page-cache",
    "attributes_s": "--attributes",
}
"Flags of the command line by the fields that they set."
STRIPE_NBYTES = 1 << 20
LEAST_BANDWIDTH = 100_000.0
"Bytes per second with which a tier can still be measured, and removed, in some seconds."
LONGEST_S = 10.0
"""Time that an answer may take: nobody who waits for one from a file system can be interrupted."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a tier is asked to be like. Bandwidths are in bytes per second, times in seconds."""

    bandwidth: float | None = None
    "Bandwidth that all clients share, of each target; None: as fast as the directory beneath."
    write_bandwidth: float | None = None
    "Bandwidth of writes, where it is another one."
    latency_s: float = 0.0
    "Time that every request takes longer, however many there are."
    metadata_s: float = 0.0
    "Time that an operation on names or attributes takes, one at a time."
    write_back_nbytes: int | None = None
    "Bytes that are taken before they are on their way to the device; None: write-through."
    fast_nbytes: int | None = None
    "Bytes of memory that are filled before the device."
    targets: int = 1
    stripe_count: int | None = None
    "Number of targets that a file is laid over; None: all."
    stripe_nbytes: int = STRIPE_NBYTES
    page_cache: bool | None = None
    """Whether data stay in memory when a file is opened again; None: if the tier writes back."""
    attributes_s: float = 1.0
    "Time for which the kernel takes names and attributes for granted."

    @property
    def targets_of_a_file(self) -> int:
        """Number of targets that a file is laid over."""
        return self.stripe_count or self.targets

    @property
    def read_rate(self) -> float | None:
        """Bytes per second that one file can be read with."""
        if self.bandwidth is None:
            return None
        return self.bandwidth * self.targets_of_a_file

    @property
    def write_rate(self) -> float | None:
        """Bytes per second that one file can be written with."""
        rate = self.write_bandwidth or self.bandwidth
        if rate is None:
            return None
        return rate * self.targets_of_a_file

    def as_json(self) -> dict[str, Any]:
        """Record as JSON has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Settings of a record that `as_json` made."""
        return cls(**record)

    def asked(self) -> dict[str, Any]:
        """Settings that are not the usual ones, by field."""
        usual = asdict(Settings())
        return {name: value for name, value in asdict(self).items() if value != usual[name]}

    def words(self) -> str:
        """Settings that are not the usual ones, as people read them."""
        told = [
            f"{FLAGS[name].removeprefix('--')} {_shown(name, value)}"
            for name, value in self.asked().items()
        ]
        return ", ".join(told) or "unlike the directory beneath in nothing"


def _shown(name: str, value: float) -> str:
    if name.endswith("bandwidth"):
        return show_rate(value)
    if name.endswith("_nbytes"):
        return show_bytes(value)
    if name.endswith("_s"):
        return show_seconds(value)
    if isinstance(value, bool):
        return "keep" if value else "drop"
    return str(value)


def require(kind: str, settings: Settings) -> None:
    """Raise UsageError unless a tier of this kind can be asked for with these settings."""
    if kind not in KINDS:
        raise UsageError(f"{kind} is no kind of tier: give one of {', '.join(KINDS)}")
    asked = settings.asked()
    missing = [FLAGS[name] for name in _NEEDED[kind] if name not in asked]
    if missing:
        raise UsageError(f"a {kind} tier needs {' and '.join(missing)}")
    if kind == NETWORK and asked.keys() - _OF_NETWORK:
        wrong = FLAGS[min(asked.keys() - _OF_NETWORK)]
        raise UsageError(f"{wrong} cannot be had of a network tier: leave it out")
    _require_sizes(settings)


def _require_sizes(settings: Settings) -> None:
    for name in ("bandwidth", "write_bandwidth", "latency_s", "metadata_s", "attributes_s"):
        value = getattr(settings, name)
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise UsageError(f"{FLAGS[name]} has to be a positive number")
    _require_answers(settings)
    if settings.targets < 1 or settings.targets_of_a_file < 1:
        raise UsageError("--targets and --stripe-count have to be 1 or more")
    if settings.targets_of_a_file > settings.targets:
        raise UsageError(
            f"--stripe-count {settings.stripe_count}: a file cannot be laid over more than the"
            f" {settings.targets} targets that there are"
        )
    for name in ("write_back_nbytes", "write_bandwidth"):
        if getattr(settings, name) and settings.bandwidth is None:
            raise UsageError(f"{FLAGS[name]} needs --bandwidth")


def _require_answers(settings: Settings) -> None:
    """Raise UsageError for a tier that would keep those who ask it waiting for ever."""
    for name in ("bandwidth", "write_bandwidth"):
        rate = getattr(settings, name)
        if rate is not None and rate < LEAST_BANDWIDTH:
            raise UsageError(
                f"{FLAGS[name]} {show_rate(rate)}: give {show_rate(LEAST_BANDWIDTH)} or more, as an"
                " answer of a slower tier takes too long"
            )
    for name in ("latency_s", "metadata_s"):
        value = getattr(settings, name)
        if value > LONGEST_S:
            raise UsageError(
                f"{FLAGS[name]} {show_seconds(value)}: give {show_seconds(LONGEST_S)} or less"
            )


def options(settings: Settings) -> list[str]:
    """Options of the program that makes such a tier."""
    page_cache = settings.page_cache
    if page_cache is None:
        page_cache = settings.write_back_nbytes is not None
    given = {
        "--read-rate": settings.bandwidth,
        "--write-rate": settings.write_bandwidth or settings.bandwidth,
        "--latency": _nanoseconds(settings.latency_s),
        "--metadata-cost": _nanoseconds(settings.metadata_s),
        "--write-back": settings.write_back_nbytes,
        "--fast": settings.fast_nbytes,
        "--targets": settings.targets,
        "--stripe-count": settings.targets_of_a_file,
        "--stripe-size": settings.stripe_nbytes,
        "--keep-cache": "yes" if page_cache else "no",
        "--attribute-ttl": _nanoseconds(settings.attributes_s),
    }
    return [
        word for name, value in given.items() if value is not None for word in (name, str(value))
    ]


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
