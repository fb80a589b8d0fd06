"""Settings: keywords that say how a pipeline is run, for type checkers and editors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, TypedDict

from hyperslab.arrays.axes import Axis
from hyperslab.arrays.partition import Rule

Granularity = Literal["fused", "stepwise"]


class Settings(TypedDict, total=False):
    """Keywords of hyperslab.run, prepare, submit, convert and Pipeline.compute.

    They are the fields of `hyperslab.Options`, which says what they mean and what holds where one
    is left out.
    """

    engine: str
    workers: int | None
    threads: int | None
    memory_bytes: int | None
    rule: Rule
    granularity: Granularity
    retries: int
    task_timeout_s: float | None
    fail_fast: bool | None
    resume: bool
    overwrite: bool
    accept_changed_function: bool
    connect: str
    throttle: int | None
    slurm_option: str | Sequence[str]
    report: bool
    live: bool
    record_messages: bool
    stage_in: str | os.PathLike[str]
    stage_out: str | os.PathLike[str]
    work_tier: str | os.PathLike[str]
    scratch: str
    keep_failed: str | os.PathLike[str]
    readers_per_device: int | None
    stagger: float
    trial: bool
    debug: bool
    memory: int | str | None
    block_shape: str | Sequence[int] | None
    blocks: str | int | Sequence[int] | None
    partition: str | None
    axes_whole: Axis | Sequence[Axis] | None
    task_timeout: float | None
