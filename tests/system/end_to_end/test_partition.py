"""How `hyperslab run` cuts: the blocks have the shapes that were asked for."""

from __future__ import annotations

import math
import os
import re
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.repetitions import few
from tests.system.end_to_end.command import (
    ANATOMICAL,
    EPI,
    LAYOUT,
    assembled,
    call,
    outputs,
    save,
    succeed,
    values_of,
)

pytestmark = pytest.mark.usefixtures("on_threads", "hurried")

DEPTH = 46
"Where a NIfTI-1 header holds the extent of the third axis, as int16."
Shape = tuple[int, ...]


def shapes(folder: Path) -> Counter[Shape]:
    return Counter(values_of(path).shape for path in outputs(folder))


CUTS: list[tuple[list[str], dict[Shape, int]]] = [
    (
        ["--block-shape", "16,20,25"],
        {(16, 20, 25): 4, (1, 20, 25): 2, (16, 1, 25): 2, (1, 1, 25): 1},
    ),
    (["--block-shape", "99,99,13"], {(33, 41, 13): 1, (33, 41, 12): 1}),
    (["--blocks", "3x1x5"], {(11, 41, 5): 15}),
    (["--blocks", "5", "--axes-whole", "2"], {(33, 8, 25): 4, (33, 9, 25): 1}),
    (["--blocks", "4", "--axes-whole", "-1,1"], {(8, 41, 25): 3, (9, 41, 25): 1}),
    (["--partition", "slabs"], {(33, 41, 1): 25}),
    (["--partition", "bytes=27060"], {(33, 41, 10): 2, (33, 41, 5): 1}),
    (["--partition", "auto"], {(33, 41, 25): 1}),
]
AGAIN: list[tuple[list[str], dict[Shape, int]]] = [
    (["--block-shape", "16x41x25"], {(16, 41, 25): 2, (1, 41, 25): 1}),
    (["--blocks", "5"], {(33, 41, 5): 5}),
    (["--partition", "slabs", "--axes-whole", "2"], {(33, 1, 25): 41}),
    (["--partition", "bytes=27.06kB"], {(33, 41, 10): 2, (33, 41, 5): 1}),
    ([], {(33, 41, 25): 1}),
]
"The same rules in other words, which tests/cli/test_parse.py reads."


@pytest.mark.parametrize(
    ("flags", "expected"), [*CUTS, *few([], AGAIN, "blocks have the shapes of the rule")], ids=str
)
def test_shapes(flags: list[str], expected: dict[Shape, int], tmp_path: Path) -> None:
    assert sum(math.prod(shape) * n for shape, n in expected.items()) == 33 * 41 * 25
    succeed("run", "increment", ANATOMICAL, "-o", tmp_path / "out", "--engine", "serial", *flags)
    assert shapes(tmp_path / "out") == expected
    assert np.array_equal(
        assembled(tmp_path / "out", ANATOMICAL), values_of(ANATOMICAL) + np.int16(1)
    )


def test_the_automatic_partition_gives_every_slot_work(tmp_path: Path) -> None:
    source = save(tmp_path / "in" / "image.nii", np.zeros((256, 256, 128), np.uint8))
    planned = succeed(
        "run", "increment", source, "-o", tmp_path / "out", "--dry-run", "--workers", "4"
    )
    blocks, largest = re.search(r"auto: (\d+) blocks, the largest 256x256x(\d+)", planned).groups()  # type: ignore[union-attr]
    assert int(blocks) * int(largest) >= 128
    assert int(blocks) >= 4


def test_the_automatic_partition_fits_the_memory(tmp_path: Path) -> None:
    source = save(tmp_path / "in" / "image.nii", np.zeros((512, 512, 1), np.uint16))
    image = bytearray(source.read_bytes())
    struct.pack_into("<h", image, DEPTH, 2048)
    source.write_bytes(image)
    os.truncate(source, 352 + 2**30)
    for memory in ("100MB", "1GB"):
        planned = succeed(
            "run", "stats", source, "-o", tmp_path / "out", "--dry-run", "--memory", memory
        )
        assert "fits       yes" in planned


def test_the_automatic_partition_of_chunks_is_whole_chunks(tmp_path: Path) -> None:
    planned = succeed(
        "run",
        "stats",
        f"{LAYOUT}/tfilters.h5::deflate",
        "-o",
        tmp_path / "out",
        "--dry-run",
        "--partition",
        "chunks",
    )
    assert "partition  chunks: 4 blocks, the largest 10x5" in planned


def test_four_axes_whole_in_time(tmp_path: Path) -> None:
    succeed(
        "run", "increment", EPI, "-o", tmp_path / "out", "--blocks", "6", "--axes-whole", "3,0,1"
    )
    assert shapes(tmp_path / "out") == {(128, 96, 4, 2): 6}


def test_what_cannot_be_cut_so_is_refused(tmp_path: Path) -> None:
    for flags, said in (
        (
            ["--blocks", "2x1x1", "--axes-whole", "0"],
            "--blocks cuts an axis that --axes-whole keeps whole",
        ),
        (["--partition", "chunks"], "--partition chunks: the array is not stored in chunks"),
        (
            ["--blocks", "3", "--block-shape", "1,1,1"],
            "--block-shape and --blocks are different ways to cut",
        ),
    ):
        done = call("run", "increment", ANATOMICAL, "-o", tmp_path / "out", *flags)
        assert done.code == 2
        assert said in done.err
    assert not (tmp_path / "out").exists()
