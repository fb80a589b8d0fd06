"""The batch system that rounds of a campaign share."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.system.clusters import slurm
from tests.system.clusters.required import required

VARIABLE = "SLURM_CONF"


class Queue:
    """A Slurm that the first round starts whose jobs are for it; `end` ends it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._until_the_end = ExitStack()
        self._variables: Mapping[str, str] = {}

    def variables(self) -> Mapping[str, str]:
        """What the environment of a round needs to find it. Skips where there can be none."""
        required(slurm.missing())
        with self._lock:
            if not self._variables:
                running = self._until_the_end.enter_context(slurm.slurm(self._folder))
                self._variables = {VARIABLE: running.environment[VARIABLE]}
            return self._variables

    def end(self) -> None:
        self._until_the_end.close()
