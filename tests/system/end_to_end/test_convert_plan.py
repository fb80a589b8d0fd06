"""What a conversion says before it starts, what it takes, and that every engine and `verify` agree
about it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hyperslab.apps.conversion import Wanted, conversion
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.partition import Rule
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.positioned import OpenFile
from hyperslab.blocks.reading.ways.gzip import Gzip
from hyperslab.driver import run
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from tests.repetitions import each_value, few
from tests.system.clusters import dask
from tests.system.clusters.required import required
from tests.system.end_to_end.command import EPI, call, growth, save

pytestmark = pytest.mark.usefixtures("hurried")


def test_a_dry_run_says_what_would_be_done(tmp_path: Path) -> None:
    done = call(
        "convert", EPI, tmp_path / "out", "--blocks", "2x2x2x1", "--format", "h5", "--dry-run"
    )
    rows = {line[:10].strip(): line[11:] for line in done.out.splitlines()}
    assert (done.code, done.err) == (0, "")
    assert list(tmp_path.iterdir()) == []
    assert rows["plan"] == "converting example4d.nii.gz"
    assert " to 8 files, " in rows["writes"]
    assert " in " in rows["reads"]
    assert rows["fits"].startswith("yes, ")


@each_value("every source, and every target: in files that hold chunks, chunks of the source")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("new.nii", {}),
        ("new.h5", {}),
        ("blocks", {"grid": Rule("blocks", (3, 2, 2)), "format": "nii"}),
        ("blocks", {"grid": Rule("blocks", (5,)), "format": "h5"}),
        ("new.h5", {"encoding": Encoding(chunks=(16, 8, 32))}),
    ],
    ids=str,
)
@pytest.mark.parametrize("source", ["in.nii", "chunked.h5", "in.h5"])
def test_the_plan_tells_the_bytes_that_are_moved(
    tmp_path: Path, source: str, name: str, options: dict[str, Any]
) -> None:
    """Exactly what spans say was read and written."""
    values, path = np.arange(64 * 50 * 40, dtype="i4").reshape(64, 50, 40), tmp_path / source
    if path.suffix == ".nii":
        save(path, values)
    else:
        with h5py.File(path, "w") as file:
            file.create_dataset(
                "data", data=values, chunks=(10, 9, 8) if source == "chunked.h5" else None
            )
    pipeline = conversion(str(path), str(tmp_path / "out" / name), Wanted(**options))
    prepared = prepare(pipeline, Options(engine="serial", memory_bytes=24 * 2**20))
    result = run.run(pipeline, engine="serial", memory_bytes=24 * 2**20)
    assert result.ok, result.failures
    moved = {
        kind: sum(s.nbytes for s in result.trace.spans if s.kind == kind)
        for kind in ("read", "write")
    }
    assert moved["read"] == prepared.plan.bytes_read
    in_h5 = name == "new.h5" or options.get("format") == "h5"
    chunked = (source == "chunked.h5" and in_h5) or "encoding" in options
    assert moved["write"] == prepared.plan.bytes_written
    assert values.nbytes <= prepared.plan.bytes_read <= 2 * values.nbytes
    assert prepared.plan.bytes_written == values.nbytes or chunked, "chunks reach beyond the array"


LARGE = [
    (100, ("split", "--blocks", "5x5x5")),
    (100, ("new.h5", "--chunks", "50,50,20", "--compression", "gzip")),
    (100, ("new.zarr", "--chunks", "50,50,20")),
]


@pytest.mark.parametrize(
    ("megabytes", "arguments"),
    few(LARGE[:1], LARGE, "memory is bounded, however a target is cut"),
    ids=["5x5x5 split", "chunks", "store"],
)
def test_memory_stays_within_what_is_allowed(
    tmp_path: Path, megabytes: int, arguments: tuple[str, ...]
) -> None:
    """With --memory 64MB, hundreds of megabytes take that much more than a few kilobytes do, at
    most.
    """
    piece = np.random.default_rng(0).integers(0, 2**16, 2**20, "u2")  # which nothing makes small
    values = np.resize(piece, (2 * megabytes, 500, 500)).T
    source = save(tmp_path / "in.nii", values)
    del values
    small = save(tmp_path / "small.nii", np.zeros((50, 50, 50), "u2"))
    line = ("--engine", "serial", "-q")
    first = ("convert", small, tmp_path / "base" / arguments[0], *arguments[1:], *line)
    then = ("convert", source, tmp_path / arguments[0], *arguments[1:], "--memory", "64MB", *line)
    assert growth(first, then) < 72e6


ENGINES = ["serial", "threads", "processes", "dask-futures"]


@pytest.mark.parametrize("engine", few(["processes"], ENGINES, "conversions are alike"))
def test_every_engine_writes_the_same(tmp_path: Path, engine: str) -> None:
    required(dask.missing() if engine == "dask-futures" else "")
    values = np.random.default_rng(0).integers(0, 2000, (24, 20, 16)).astype("i2")
    source = save(tmp_path / "in.nii", values)
    encoding = Encoding(chunks=(6, 5, 4), compression="gzip")
    options = Options(
        engine=engine, memory_bytes=48 * 2**20, workers=None if engine == "serial" else 1
    )
    for pipeline in (
        conversion(str(source), str(tmp_path / "new.h5"), Wanted(encoding=encoding)),
        conversion(
            str(source),
            str(tmp_path / "blocks"),
            Wanted(grid=Rule("blocks", (2, 2, 2)), format="nii.gz"),
        ),
    )[: 1 if engine == "dask-futures" else 2]:
        result = run.run(pipeline, options)
        assert result.ok, result.failures
    with h5py.File(tmp_path / "new.h5") as file:
        np.testing.assert_array_equal(file["data"][()], values)
    if (tmp_path / "blocks").exists():
        assert len(list((tmp_path / "blocks").glob("*.nii.gz"))) == 8


def test_verify_enters_a_compressed_file_where_its_regions_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not from its beginning for each of them."""
    values = np.random.default_rng(0).integers(0, 99, (64, 64, 1200)).astype("u2")
    out = tmp_path / "out.nii.gz"
    assert (
        call(
            "convert",
            save(tmp_path / "in.nii", values),
            out,
            "--memory",
            "24MB",
            "--engine",
            "threads",
            "--workers",
            2,
            "-q",
        ).code
        == 0
    )
    plain, regions = Gzip.fill, list[Hyperslab]()

    def fill(way: Gzip, file: OpenFile, source: ArraySource, slab: Hyperslab, *more: Any) -> None:
        regions.append(slab)
        plain(way, file, source, slab, *more)

    monkeypatch.setattr(Gzip, "fill", fill)
    done = call("verify", out)
    assert (done.code, len(regions) > 2) == (0, True), done
    out.write_bytes(out.read_bytes()[:-100_000] + bytes(100_000))
    done = call("verify", out)
    assert done.code == 1
    assert done.out.endswith("0 of 1 output unchanged since the run\n")
