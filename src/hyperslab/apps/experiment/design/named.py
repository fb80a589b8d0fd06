"""Named tiers: directories that a spec calls by names, real ones or emulated ones.

A shipped spec cannot know which tiers a machine has. It names them and says how to emulate those
that are missing; `--tier NAME=DIR` puts a real one in the place of an emulated one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hyperslab.errors import UsageError, suggest
from hyperslab.plan.mistakes import Table
from hyperslab.plan.written import parse_size
from hyperslab.storage.emulation.settings import STRIPE_NBYTES, Settings, require
from hyperslab.storage.scratch.holding import IMAGE
from hyperslab.units import show_list, show_seconds

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Kind = Literal["throttled", "volatile", "metadata", "striped"]


class NamedTier(Table):
    """A tier: a directory, or how to emulate one (see `hyperslab tiers emulate`)."""

    about: str = ""
    "What it stands for."
    path: str | None = None
    "Directory; '': the experiment's own."
    emulate: Kind | None = None
    "Kind of an emulated tier, which is made before the trials and removed after them."
    backing: str = ""
    "Directory that holds the files of an emulated tier; '': the experiment's own."
    bandwidth: str | None = None
    write_bandwidth: str | None = None
    latency_s: Seconds = 0.0
    metadata_s: Seconds = 0.0
    write_back: str | None = None
    "Size of the memory that takes what is written; None: write-through."
    fast: str | None = None
    page_cache: bool | None = None
    targets: Count = 1
    stripe_count: Count | None = None
    stripe_size: str | None = None
    tolerance: Annotated[float, Field(gt=0)] = 0.3
    "Share by which it may differ from what is asked for."

    @model_validator(mode="after")
    def _one_of_both(self) -> NamedTier:
        if (self.path is None) == (self.emulate is None):
            raise ValueError("give one of path and emulate")
        try:
            if self.emulate is not None:
                require(self.emulate, self.settings())
        except UsageError as error:
            raise ValueError(str(error)) from error
        return self

    def settings(self) -> Settings:
        """What an emulated tier is asked to be like. Raises UsageError."""
        return Settings(
            bandwidth=_size("bandwidth", self.bandwidth),
            write_bandwidth=_size("write_bandwidth", self.write_bandwidth),
            latency_s=self.latency_s,
            metadata_s=self.metadata_s,
            write_back_nbytes=_size("write_back", self.write_back),
            fast_nbytes=_size("fast", self.fast),
            targets=self.targets,
            stripe_count=self.stripe_count,
            stripe_nbytes=_size("stripe_size", self.stripe_size) or STRIPE_NBYTES,
            page_cache=self.page_cache,
        )

    def asked(self) -> str:
        """Rates and times that an emulated tier is asked for, in words."""
        words = [
            self._rate(),
            self.write_bandwidth and f"writing {self.write_bandwidth}/s",
            self.latency_s and f"latency {show_seconds(self.latency_s)}",
            self.metadata_s and f"opening {show_seconds(self.metadata_s)}",
            self.write_back and f"write-back {self.write_back}",
        ]
        return ", ".join(word for word in words if word)

    def _rate(self) -> str:
        """Rate of an emulated tier, in words; of one with several targets that of each."""
        if self.bandwidth is None:
            return ""
        rate = f"{self.bandwidth}/s"
        if self.targets == 1:
            return rate
        return f"{self.stripe_count or self.targets} of {self.targets} targets of {rate}"


def _size(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    return parse_size(name, text)


def with_real(
    named: Mapping[str, NamedTier], given: Sequence[str], are_here: bool = True
) -> dict[str, NamedTier]:
    """The tiers of a spec, some of them in real directories, from texts such as 'nfs=/mnt/nfs';
    those of records of another machine need not be here. Raises UsageError.
    """
    changed = dict(named)
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise UsageError(f"--tier {text}: give NAME=DIR, such as nfs=/mnt/nfs")
        if name not in named:
            known = show_list(list(named)) or "no tiers"
            raise UsageError(
                f"--tier {text}: the spec has no tier '{name}'{suggest(name, named)}; it has"
                f" {known}"
            )
        if are_here and not Path(path).is_dir():
            raise UsageError(f"--tier {text}: there is no such directory")
        real = {"about": named[name].about, "path": str(Path(path).absolute())}
        changed[name] = NamedTier.model_validate(real)
    return changed


def tier_of(level: str) -> str:
    """The tier that a level of a factor names, be it one file on that."""
    return level.removeprefix(IMAGE)


def is_emulated(named: Mapping[str, NamedTier], level: Any) -> bool:
    """Whether a level of a factor names a tier that is emulated."""
    if not isinstance(level, str):
        return False
    tier = named.get(tier_of(level))
    return tier is not None and tier.emulate is not None
