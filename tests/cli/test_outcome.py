"""What the command says of a run that is over."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperslab.cli.outcome import _printed
from hyperslab.trace import Trace


@pytest.mark.parametrize(
    ("engine", "who"),
    [
        ("processes", "the function"),
        ("gnu-parallel", "the function or GNU Parallel"),
        ("mpi", "the function or mpiexec"),
        ("slurm", "the function or Slurm"),
    ],
)
def test_whoever_writes_to_the_log_is_named(tmp_path: Path, engine: str, who: str) -> None:
    """As ssh with the banner of a host, or srun that ends ranks."""
    log = tmp_path / "worker.log"
    log.write_text("Authorized use only\n")
    result: Any = SimpleNamespace(trace=Trace([], [], meta={"run": {"engine": engine}}))
    assert _printed(result, log, tmp_path) == f"1 line, by {who}: {log}"
