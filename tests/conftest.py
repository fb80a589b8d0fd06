"""What all tests share: hypothesis profiles, the folder of extra real files, and a loud list of
what was skipped.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from pathlib import Path

# before netCDF4, which would have HDF5 look for filters in its own folder, as it may have had it do
# in the process that started this one
os.environ.pop("HDF5_PLUGIN_PATH", None)
import hdf5plugin  # noqa: F401
import pytest
from hypothesis import Phase, settings

from tests.examples import examples
from tests.spark_java import java_options
from tests.spark_java import settings as settings_of_spark

ROOT = Path(__file__).parent
LONGEST = (
    "system/faults/test_clusters.py",
    "formats/test_matrix.py",
    "engines/test_spark.py",
    "engines/test_connect.py",
    "connectors/spark/test_page.py",
    "engines/test_gnu_parallel.py",
    "system/end_to_end/test_split_merge.py",
    "system/faults/test_driver.py",
    "connectors/spark/test_table.py",
    "storage/remote/test_zarr.py",
    "connectors/test_xarray_suite.py",
    "engines/test_processes.py",
    "system/faults/test_convert.py",
    "connectors/spark/test_clients.py",
    "storage/remote/test_zarr_faults.py",
    "system/end_to_end/test_readme.py",
    "engines/test_slurm.py",
    "campaign/test_campaign.py",
    "system/verdicts/test_storage.py",
    "system/faults/test_gnu_parallel.py",
    "connectors/test_xarray_files.py",
    "connectors/spark/test_read.py",
    "engines/test_one_process.py",
    "engines/test_mpi.py",
)
"""Files that take longest, longest first: they begin first, so that none is left when all others
have ended.
"""
gc.disable()  # until all is collected: of what is imported and made until then, nothing is garbage
pytest.register_assert_rewrite("hyperslab.testing")
settings.register_profile("here", deadline=None, max_examples=examples(100))
settings.register_profile(
    "ci", deadline=None, derandomize=True, print_blob=True, max_examples=examples(100)
)
# For `make mutants`, which asks whether a test fails, not what the smallest example is.
settings.register_profile(
    "mutants", deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("ci" if os.environ.get("CI") else "here")
os.environ |= settings_of_spark(java_options(), java_options())
# What was probed on this machine is of no concern to the tests.
os.environ["HYPERSLAB_MACHINE"] = "/nonexistent/machine.json"


def pytest_configure(config: pytest.Config) -> None:
    """Have each process of pytest-xdist lead a session: the kernel (autogroup, sched(7)) shares the
    processors among sessions, of which the programs that tests start have one each, too.
    """
    if hasattr(config, "workerinput"):
        os.setsid()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the longest files begin first."""
    places = {ROOT / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_finish() -> None:
    """Leave no compiled modules beside the functions that tests write: which test imports one first
    depends on their order. Garbage is collected from here on, of what tests make.
    """
    gc.freeze()
    gc.enable()
    sys.dont_write_bytecode = True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each reason for a skip, with what to do about it, so that none goes unnoticed."""
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    if not reasons:
        return
    terminalreporter.section(
        f"NOT TESTED HERE: {reasons.total()} skipped", sep="!", red=True, bold=True
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.line(f"{count:5d} x {reason}")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
