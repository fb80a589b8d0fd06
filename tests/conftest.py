"""What all tests share: hypothesis profiles, the folder of extra real files, a fixture for many
small conversions, and a loud list of what was skipped.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

# before netCDF4, which would have HDF5 look for filters in its own folder, as it may have had it do
# in the process that started this one
os.environ.pop("HDF5_PLUGIN_PATH", None)
# what functions print comes out of programs that are killed, too, without its help
os.environ.pop("PYTHONUNBUFFERED", None)
import hdf5plugin  # noqa: F401
import pytest
from hypothesis import Phase, settings

from tests import repetitions
from tests.examples import examples
from tests.spark_java import java_options
from tests.spark_java import settings as settings_of_spark

ROOT = Path(__file__).parent
TOGETHER = ("tests/connectors/spark/", "tests/storage/remote/", "tests/system/browser/")
"Folders whose tests share what takes long to start."
ALSO = {"tests/engines/test_spark.py": "tests/connectors/spark/"}
"Files of other folders whose tests share it, and the folder with which they do."
WORD = "left out"
"Key of what processes of pytest-xdist say of the repetitions that they leave out."
LONGEST = (
    "connectors/spark/test_key_values.py",  # and with it all that share its Java
    "storage/remote/test_zarr.py",
    "system/faults/test_clusters.py",
    "formats/test_matrix.py",
    "engines/test_gnu_parallel.py",
    "apps/netlab/test_cluster.py",
    "engines/test_connect.py",
    "workloads/test_smooth.py",
    "engines/test_one_process.py",
    "engines/test_slurm.py",
    "system/end_to_end/test_staging.py",
    "system/faults/test_experiments.py",
    "system/faults/test_detached.py",
    "apps/bids/containers/test_podman.py",
    "system/end_to_end/test_pages.py",
    "connectors/test_xarray_suite.py",
    "engines/test_mpi.py",
    "system/faults/test_failures.py",
    "system/browser/test_live.py",
    "system/faults/test_convert.py",
    "system/faults/test_lost_pages.py",
    "system/faults/test_frames.py",
    "system/faults/test_mpi.py",
    "system/faults/test_copies.py",
    "system/faults/test_commit.py",
    "system/faults/test_driver.py",
    "engines/test_processes.py",
    "apps/test_locality.py",
    "system/faults/test_damaged_records.py",
    "engines/test_dask_bag.py",
    "system/faults/test_gnu_parallel.py",
    "apps/experiment/test_spark_rounds.py",
    "system/end_to_end/test_readme.py",
    "system/end_to_end/test_split_merge.py",
    "system/faults/test_memory.py",
    "system/faults/test_workers.py",
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


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports, waiting for the disk and counting what other processes use take longer than small
    conversions, and have tests of their own.
    """
    import hyperslab.cli.report  # noqa: F401  # it keeps the function that is taken away here
    from hyperslab.driver import submission
    from hyperslab.machine import pressure
    from hyperslab.storage import renaming

    monkeypatch.setattr(submission, "write_report", lambda *_: None)
    monkeypatch.setattr(renaming, "synchronise", lambda *_, **__: None)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(pressure, "_own_s", lambda *_: None)


def pytest_configure(config: pytest.Config) -> None:
    """Have each process of pytest-xdist lead a session: the kernel (autogroup, sched(7)) shares the
    processors among sessions, of which the programs that tests start have one each, too.
    """
    if hasattr(config, "workerinput"):
        os.setsid()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave repetitions out, and have the longest files begin first."""
    repetitions.leave_out(config, items)
    places = {ROOT / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Have one process play the files of a folder of TOGETHER, where others take a file each."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class ByFolder(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            folders = (folder for folder in TOGETHER if file.startswith(folder))
            return ALSO.get(file, next(folders, file))

    return ByFolder(config, log)


def pytest_collection_finish() -> None:
    """Leave no compiled modules beside the functions that tests write: which test imports one first
    depends on their order. Garbage is collected from here on, of what tests make.
    """
    gc.freeze()
    gc.enable()
    sys.dont_write_bytecode = True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Have a process of pytest-xdist tell the first one how much it has left out."""
    if hasattr(session.config, "workeroutput"):
        left = session.config.stash.get(repetitions.LEFT_OUT, 0)
        session.config.workeroutput[WORD] = left


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear it: every process has collected, and left out, the same."""
    said = getattr(node, "workeroutput", {})
    if WORD in said:
        node.config.stash[repetitions.LEFT_OUT] = said[WORD]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how much was left out, and each reason for a skip, with what to do about it, so that
    none goes unnoticed.
    """
    left_out = repetitions.told(terminalreporter.config)
    if left_out:
        terminalreporter.line(left_out)
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
