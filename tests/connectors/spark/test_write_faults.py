"""A write that fails, or whose driver is killed, leaves what was there, and in the end nothing
else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

from hyperslab.blocks import writing
from hyperslab.connectors.spark import fragment_files
from hyperslab.connectors.spark.destination import destination
from hyperslab.connectors.spark.writing import h5write
from hyperslab.errors import UsageError
from hyperslab.machine.host import boot_id
from hyperslab.storage.tiers.file_systems import LOCAL_FILE_SYSTEMS
from tests.connectors.spark import killed_write
from tests.connectors.spark.staged import staged_file
from tests.formats.files import ROOT

PATIENCE_S = 100


def wait_for(process: subprocess.Popen[bytes], *paths: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while not all(path.exists() for path in paths):
        assert process.poll() is None, "the driver has ended"
        assert time.monotonic() < end, [path.name for path in paths[0].parent.iterdir()]
        time.sleep(0.05)


def test_a_killed_driver_leaves_the_old_file_and_the_next_write_tidies_up(tmp_path: Path) -> None:
    """The old file is itself one whose tasks failed at first and were done again."""
    path = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environ = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    driver = subprocess.Popen(
        [sys.executable, killed_write.__file__, str(tmp_path)],
        env=environ | {"PYTHONPATH": os.pathsep.join(path)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(driver, tmp_path / "begun-0", tmp_path / "begun-1")
        expected = np.repeat(np.arange(10.0)[:, None], 3, axis=1)
        with h5py.File(tmp_path / "x.h5") as file:
            np.testing.assert_array_equal(file["data"][...], expected)
        (left,) = tmp_path.glob(".x.h5.*.part")
        hidden = hidden_after_another(tmp_path)
        assert hidden == [left.name], "a folder of a driver that lives stays"
        old = (tmp_path / "x.h5").read_bytes()
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait(PATIENCE_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait(PATIENCE_S)
    assert (tmp_path / "x.h5").read_bytes() == old
    assert hidden_after_another(tmp_path) == []
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith("begun")] == ["x.h5"]


def hidden_after_another(folder: Path) -> list[str]:
    """What is hidden after the folder for another write of the same file has been made, and removed
    again.
    """
    with fragment_files.begun(str(folder / "x.h5")):
        pass
    return [path.name for path in folder.glob(".x.h5.*")]


def test_tasks_that_fail_leave_what_was_there(sc: Any, tmp_path: Path) -> None:
    (tmp_path / "x.h5").write_bytes(b"old")

    def fail(partition: int, items: Any) -> Any:
        yield from items
        if partition:
            raise OSError("no answer")

    with pytest.raises(Exception, match="no answer"):
        h5write(
            sc.parallelize(range(1000), 2).mapPartitionsWithIndex(fail),
            tmp_path / "x.h5",
            overwrite=True,
        )
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("x.h5", b"old")]


@pytest.mark.parametrize("step", ["allocate", "write_region", "commit"])
@pytest.mark.parametrize("name", ["x.h5", "x.zarr", "x.nii.gz"])
def test_a_disk_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, name: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", "somewhere")

    with monkeypatch.context() as patch:
        patch.setattr(writing, step, fail)
        with pytest.raises(OSError, match="No space left"):
            staged_file(tmp_path, [[1, 2], [3, 4]], path=name)
    assert not list(tmp_path.iterdir())
    staged_file(tmp_path, [[1, 2], [3, 4]], path=name)


def test_only_folders_that_surely_nobody_uses_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that other machines may share, a free lock says nothing of those."""
    final = str(tmp_path / "x.h5")
    left = Path(fragment_files.begin(final))
    other = tmp_path / ".y.h5.0123456789abcdef.part"
    other.mkdir()
    for said, is_local, stays in (
        ("", True, True),
        ("elsewhere", False, True),
        (boot_id(), False, False),
    ):
        if said:
            (left / "lock").write_text(said)
        monkeypatch.setattr(
            fragment_files, "LOCAL_FILE_SYSTEMS", LOCAL_FILE_SYSTEMS if is_local else ()
        )
        with fragment_files.begun(final):
            pass
        assert left.exists() == stays, said
    assert [p.name for p in tmp_path.iterdir()] == [other.name]


def test_a_file_that_holds_more_than_is_written_is_not_replaced(tmp_path: Path) -> None:
    """The other arrays would be lost."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["group/y"] = np.zeros(3), np.ones(4)
        file["text"], file["one"] = ["a", "b"], 5.0
    with pytest.raises(
        UsageError, match=r"a\.h5: also holds group/y, one, text, and a file is written as a whole"
    ):
        destination(tmp_path / "a.h5", "x", overwrite=True)
    with netCDF4.Dataset(tmp_path / "b.nc", "w") as file:
        file.createDimension("lat", 3)
        file.createVariable("lat", "f4", ("lat",))
        file.createVariable("x", "f4", ("lat",))
    with pytest.raises(UsageError, match=r"b\.nc: also holds lat, and"):
        destination(tmp_path / "b.nc", "x", overwrite=True)
    (tmp_path / "c.h5").write_bytes((tmp_path / "a.h5").read_bytes()[:900])
    with pytest.raises(
        UsageError,
        match=r"c\.h5: the file that would be replaced cannot be read: .*; remove the file first",
    ):
        destination(tmp_path / "c.h5", "x", overwrite=True)
    for name in ("a.nc", "a.nii", "a.zarr"):
        (folder := tmp_path / name.removeprefix("a.")).mkdir()
        for _ in range(2):  # a file of ours, with what it has beside the array
            staged_file(folder, [np.ones((2, 3))], path=name, overwrite=True)
