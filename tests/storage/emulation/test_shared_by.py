"""Emulated tiers that stand for a device of one machine, whose processes share its pages, and those
that stand for a file system of several machines: by the type of the mount, which all see who see
the mount.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hyperslab.arrays.header import Header
from hyperslab.blocks.writing import write
from hyperslab.formats import nifti
from hyperslab.storage import renaming
from hyperslab.storage.emulation import program
from hyperslab.storage.emulation.registry import Emulation
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.tiers.file_systems import network_file_system
from tests.storage.emulation.tiers import mounted

BEHIND = Settings(bandwidth=1e6, write_back_nbytes=8_000_000)
"Memory that takes all of what is written here, before a device that takes long for it."
VALUES = np.zeros((40, 50, 60), np.int16)


def left_nbytes(emulation: Emulation) -> int:
    """Bytes that a tier has taken, and its device does not have yet."""
    nbytes: int = program.counters(emulation)["dirty_nbytes"]
    return nbytes


def written(folder: Path) -> Path:
    """A file that a task has written whole."""
    sink = nifti.sink(str(folder / "volume.nii"), VALUES.shape, VALUES.dtype, Header())
    return Path(write(sink, VALUES).path)


@pytest.mark.parametrize("kind", ["throttled", "volatile"])
def test_a_task_leaves_what_it_wrote_to_the_memory_of_its_machine(
    in_memory: Path, kind: str
) -> None:
    with mounted(in_memory, BEHIND, kind=kind) as emulation:
        assert network_file_system(str(in_memory)) == ""
        path = written(in_memory)
        assert left_nbytes(emulation) > 0, "nobody has waited for the device"
        renaming.synchronise(path)
        assert left_nbytes(emulation) == 0


@pytest.mark.parametrize("kind", ["striped", "metadata"])
def test_a_task_waits_for_what_several_machines_share(in_memory: Path, kind: str) -> None:
    with mounted(in_memory, BEHIND, kind=kind) as emulation:
        assert network_file_system(str(in_memory)) == f"fuse.hyperslab-{kind}"
        written(in_memory)
        assert left_nbytes(emulation) == 0


def test_many_files_and_folders_of_chunks_are_waited_for(in_memory: Path) -> None:
    """The kernel tells no program behind a mount that a whole file system is to be on storage."""
    with mounted(in_memory, BEHIND) as emulation:
        many = [in_memory / str(number) for number in range(20)]
        for path in many:
            path.write_bytes(bytes(10_000))
        assert left_nbytes(emulation) > 0
        renaming.synchronise_all([*many, in_memory / "gone"], in_memory)
        assert left_nbytes(emulation) == 0
        store = in_memory / "image.zarr" / "c"
        store.mkdir(parents=True)
        (store / "0").write_bytes(bytes(100_000))
        (store / "link").symlink_to("nowhere")
        renaming.synchronise(store.parent)
        assert left_nbytes(emulation) == 0
