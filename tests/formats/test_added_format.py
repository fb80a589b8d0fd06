"""A format that another package brings, NRRD: read, written, compared, converted and loaded by
everything here without a line that is for it.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import dask
import nibabel as nib
import nrrd
import numpy as np
import pytest
import xarray

import hyperslab
from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import Codec, Values
from hyperslab.errors import FormatError, MissingExtra, MissingGroup, SourceChanged, UsageError
from hyperslab.formats import hooks, table
from hyperslab.formats.facts import Facts
from hyperslab.formats.groups import GroupReader, read_groups
from hyperslab.storage.location import RemoteFolder
from hyperslab.testing import FormatTests
from tests.formats.files import ROOT
from tests.repetitions import repeats
from tests.system.end_to_end.command import AS_INSTALLED, call

SOURCE = Path(__file__).with_name("nrrd_format.py")
ATTACHED = {
    "little.nrrd": ("<i2", (13, 7, 9), "raw"),
    "big.nrrd": (">u2", (5, 6, 7, 3), "raw"),
    "line.nrrd": ("<f8", (101,), "raw"),
    "packed.nrrd": (">f4", (12, 9, 8), "gzip"),
}
DETACHED = {
    "apart.nhdr": (">i4", (9, 8, 7), "raw"),
    "apart_packed.nhdr": ("<u1", (11, 4, 6), "gzip"),
}
MADE = {**ATTACHED, **DETACHED}
PLACE = np.array([[0, -2, 0], [1.5, 0, 0], [0, 0, 3]])
"Directions of the axes in the space of the files, one in each row: left, posterior, superior."
SERIAL = ("--engine", "serial")
OFFERED = {"arrays", "candidates", "open", "read_reference", "sink", "encode", "assemble"}
"Functions of the format."
SAID = {
    "--format",
    "hyperslab.testing.FormatTests",
    "Format",
    "pieces",
    "RemoteFolder",
    "info",
    "diff",
    "convert",
    "run",
}
"What else the page for contributors names: an option, the suite, a form, a path, commands."
SPARK = """
import sys
from pyspark.sql import SparkSession
import hyperslab.connectors.spark as connector
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
blocks = connector.read_blocks(spark.sparkContext, sys.argv[1], partitions=3)
connector.h5write(blocks, sys.argv[2])
spark.stop()
"""


def install(folder: Path) -> Path:
    """Put the format into a folder as pip would: its module, and its entry point beside it."""
    (folder / SOURCE.name).write_text(SOURCE.read_text())
    snippet = adding().partition("```toml")[2].partition("```")[0]
    told = tomllib.loads(snippet)["project"]["entry-points"]
    ((name, value),) = told[table.ENTRY_POINTS].items()
    bring(folder, "nrrd-format", f"{name} = {value}")
    return folder


def adding() -> str:
    """What contributors are told about adding a format."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    return page.partition("## Adding a format\n")[2].partition("\n## ")[0]


def bring(folder: Path, package: str, entry: str) -> None:
    """An entry point, as an installed package has it."""
    about = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{table.ENTRY_POINTS}]\n{entry}\n")


def forget() -> None:
    """Have the table read again."""
    for told in (table.known, table.suffixes, table.written):
        told.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The format as an installed package, for this process and those that it starts."""
    folder = install(tmp_path_factory.mktemp("site"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
        forget()
        yield folder
    sys.modules.pop("nrrd_format", None)
    forget()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every kind of file that is read, as pynrrd writes them."""
    folder = tmp_path_factory.mktemp("nrrd")
    rng = np.random.default_rng(5)
    for name, (dtype, shape, encoding) in MADE.items():
        values = rng.integers(0, 200, shape).astype(dtype)
        about: dict[str, Any] = {"encoding": encoding, "patient": "a phantom"}
        if len(shape) == 3:
            about |= {"space": "left-posterior-superior", "space directions": PLACE}
            about["space origin"] = np.array([10.0, 20.0, -30.0])
        nrrd.write(str(folder / name), values, about)
    return folder


@lru_cache(maxsize=len(MADE))
def whole(path: str) -> Array:
    values: Array = nrrd.read(path)[0]
    return values


class TestNrrd(FormatTests):
    @pytest.fixture(params=list(MADE))
    def path(self, made: Path, request: pytest.FixtureRequest) -> Path:
        return made / str(request.param)

    def reference(self, url: str, slab: Hyperslab, values: Values) -> Array:
        block: Array = whole(url)[slab.slices()]
        return block

    def companions(self, path: Path) -> list[Path]:
        data = {"apart.nhdr": "apart.raw", "apart_packed.nhdr": "apart_packed.raw.gz"}
        return [path.with_name(data[path.name])] if path.name in data else []

    def test_the_kind_of_file_is_the_one_meant(self, path: Path) -> None:
        dtype, shape, encoding = MADE[path.name]
        source = formats.open_source(str(path))
        assert (source.format, source.shape, source.stored) == ("nrrd", shape, np.dtype(dtype))
        assert (source.chunks is None) == (encoding == "gzip" or path.name in DETACHED)
        assert [codec.name for codec in source.codecs] == ["gzip"] * (encoding == "gzip")
        assert all(companion.is_file() for companion in self.companions(path))


def test_voxels_lie_where_pynrrd_says(made: Path) -> None:
    header = formats.open_source(str(made / "little.nrrd")).header
    assert header.affine is not None
    about = nrrd.read_header(str(made / "little.nrrd"))
    left_posterior = about["space origin"] + np.array([1, 2, 3]) @ about["space directions"]
    found = header.affine @ [1, 2, 3, 1]
    np.testing.assert_allclose(found[:3], left_posterior * [-1, -1, 1])


def test_skipped_bytes_and_lines_are_no_values(tmp_path: Path) -> None:
    values = np.arange(24, dtype=">i2").reshape(4, 6)
    (tmp_path / "data.raw").write_bytes(b"a line\nxyz" + values.tobytes())
    fields = "type: short\ndimension: 2\nsizes: 6 4\nencoding: raw\nendian: big\n"
    header = tmp_path / "skipping.nhdr"
    for skips in ("line skip: 1\nbyte skip: 3\n", "byte skip: -1\n"):
        header.write_text(f"NRRD0004\n# by hand\n{fields}{skips}data file: data.raw\n")
        assert (hyperslab.open(str(header))[:] == nrrd.read(str(header))[0]).all()
        assert (hyperslab.open(str(header))[:] == values.T).all()


def test_data_that_changed_beside_their_header_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.nhdr"
    nrrd.write(str(path), np.ones((4, 5)), {"encoding": "raw"})
    view = hyperslab.open(str(path))
    assert view[0, 0] == 1
    (tmp_path / "a.raw").write_bytes(bytes(4 * 5 * 8 + 1))
    with pytest.raises(SourceChanged, match=r"a\.raw: was written to"):
        view[0, 0]


@pytest.mark.parametrize("name", list(ATTACHED))
def test_files_cut_short_are_not_read(made: Path, tmp_path: Path, name: str) -> None:
    short = tmp_path / name
    short.write_bytes((made / name).read_bytes()[:-3])
    with pytest.raises(FormatError, match=r"truncated|corrupt"):
        hyperslab.open(str(short))[:]


def test_what_is_not_supported_is_said(tmp_path: Path) -> None:
    path = tmp_path / "text.nrrd"
    nrrd.write(str(path), np.ones((2, 2)), {"encoding": "ascii"})
    with pytest.raises(FormatError, match="as 'ascii' are not read"):
        hyperslab.open(str(path))
    path.write_bytes(b"no such file")
    with pytest.raises(FormatError, match=r"is not a NRRD file .* and NRRD \(.nrrd, .nhdr\)"):
        hyperslab.open(str(path))
    with pytest.raises(UsageError, match="a NRRD file holds one array; leave out '::a'"):
        hyperslab.open(f"{_one(tmp_path / 'one.nrrd')}::a")


def test_help_and_doctor_know_of_it() -> None:
    asked = [*AS_INSTALLED, "convert", "--help"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert "zarr or nrrd" in " ".join(told.replace("│", "").split())
    assert formats.say_words("nii") == "nii (the default), nii.gz, h5, nc, zarr or nrrd"
    assert [facts.name for facts in table.brought()] == ["nrrd"]


def test_a_library_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needing.py").write_text("import no_such_library\n")
    libraries = (("no_such_library", "needing[all]"),)
    facts = Facts("needing", "needing", "Needing", "NEEDING", libraries=libraries)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(formats, "facts_of", lambda name: facts)
    with pytest.raises(MissingExtra, match=r"^Needing files need no_such_library: pip install"):
        formats.module("needing")


def test_info_shows_it(made: Path) -> None:
    shown = call("info", made)
    assert shown.code == 0
    for name in MADE:
        assert str(made / name) in shown.out
    one = call("info", made / "packed.nrrd").out
    for text in ("format       nrrd", "big-endian", "12x9x8", "one gzip stream", "a phantom"):
        assert text in one


@pytest.mark.parametrize("options", [[], ["--compression", "gzip"]], ids=["raw", "gzip"])
def test_it_is_written_as_pynrrd_reads_it(made: Path, tmp_path: Path, options: list[str]) -> None:
    path = tmp_path / "new.nrrd"
    done = call("convert", made / "apart.nhdr", path, *options, "--engine", "processes")
    assert done.code == 0, done.err
    values, about = nrrd.read(str(path))
    np.testing.assert_array_equal(values, whole(str(made / "apart.nhdr")))
    assert about["encoding"] == ("gzip" if options else "raw")
    assert call("diff", made / "apart.nhdr", path).code == 0
    assert call("diff", made / "little.nrrd", path).code == 1


def test_there_and_back_through_other_formats(made: Path, tmp_path: Path) -> None:
    path = made / "little.nrrd"
    for name in ("a.nii", "a.nii.gz", "a.h5", "a.nc", "a.zarr"):
        there, back = tmp_path / name, tmp_path / f"{name}.nrrd"
        assert call("convert", path, there, *SERIAL).code == 0
        assert call("convert", there, back, *SERIAL).code == 0
        np.testing.assert_array_equal(nrrd.read(str(back))[0], whole(str(path)))
        kept = [] if name.endswith((".h5", ".nc", ".zarr")) else ["--ignore-attributes"]
        assert call("diff", path, back, *kept).code == 0
    image: Any = nib.load(tmp_path / "a.nii")
    affine: Any = formats.open_source(str(path)).header.affine
    assert image.shape == (13, 7, 9)
    np.testing.assert_allclose(image.affine, affine)


def test_a_split_array_becomes_blocks_of_it_and_one_again(made: Path, tmp_path: Path) -> None:
    path = made / "little.nrrd"
    split = ("--format", "nrrd", "--blocks", "2x1x3", "--engine", "processes", "--workers", 2)
    done = call("convert", path, tmp_path / "blocks", *split)
    assert done.code == 0, done.err
    assert len(list((tmp_path / "blocks").glob("*.nrrd"))) == 6
    assert call("convert", tmp_path / "blocks", tmp_path / "merged.nrrd").code == 0
    np.testing.assert_array_equal(nrrd.read(str(tmp_path / "merged.nrrd"))[0], whole(str(path)))


def test_blocks_of_results_are_written_in_it(made: Path, tmp_path: Path) -> None:
    done = call("run", "increment", made / "big.nrrd", "--out", tmp_path, "--format", "nrrd")
    assert done.code == 0, done.err
    (written,) = tmp_path.glob("*.nrrd")
    values = whole(str(made / "big.nrrd"))
    np.testing.assert_array_equal(nrrd.read(str(written))[0], values + 1)


def test_dask_reads_it_in_threads_and_processes(made: Path) -> None:
    for name, scheduler in (("big.nrrd", "threads"), ("apart_packed.nhdr", "processes")):
        lazy = hyperslab.to_dask(str(made / name))
        with dask.config.set(scheduler=scheduler, num_workers=1):
            np.testing.assert_array_equal(lazy.compute(), whole(str(made / name)))


def test_xarray_reads_it_with_and_without_being_told(made: Path) -> None:
    from hyperslab.connectors.xarray import HyperslabBackend

    for name in MADE:
        path = str(made / name)
        assert HyperslabBackend().guess_can_open(path)
        with xarray.open_dataset(path, engine=HyperslabBackend) as dataset:
            np.testing.assert_array_equal(dataset["image"].values, whole(path))
        with pytest.raises(MissingGroup, match="holds no group"):
            read_groups(path, "t1")


@repeats("processes that others start know an added format: those of Dask")
def test_spark_loads_and_writes_it(made: Path, tmp_path: Path) -> None:
    """In a process of its own: the workers of a Spark that runs already would not know of it."""
    paths = [str(made / "little.nrrd"), str(tmp_path / "rows.nrrd")]
    settings = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    places = [os.environ["PYTHONPATH"], str(ROOT / "src"), str(ROOT)]
    settings["PYTHONPATH"] = os.pathsep.join(places)
    done = subprocess.run(
        [sys.executable, "-c", SPARK, *paths],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | settings,
    )
    assert done.returncode == 0, done.stderr
    loaded = whole(paths[0])
    np.testing.assert_array_equal(nrrd.read(paths[1])[0], loaded)


def test_contributors_are_told_what_there_is() -> None:
    """Every file, function, record and field that the page names is there, and the functions are
    those of the format.
    """
    words = set(re.findall(r"`([^`\n]+)`", adding().replace("```", "")))
    paths = {word for word in words if "/" in word}
    assert str(SOURCE.relative_to(ROOT)) in paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    facts = re.findall(r"(?m)^\| `(\w+)` \|", adding())
    assert facts == [field.name for field in dataclasses.fields(Facts)]
    own = vars(importlib.import_module("nrrd_format"))
    asked = set().union(*map(vars, (formats.Format, hooks.Encodes, hooks.Joins)))
    assert words & asked == OFFERED
    assert OFFERED | {"FACTS"} <= own.keys()
    records = [Facts, ArraySink, Codec, FormatTests, TestNrrd, table, GroupReader]
    names = {name for record in records for name in dir(record)}
    assert words - paths - OFFERED - own.keys() - names - SAID == set()


def test_a_file_of_an_unknown_kind_is_not_read_as_netcdf(tmp_path: Path) -> None:
    """A format of several arrays that says nothing of groups has none that are listed."""
    facts = Facts("many", "nrrd_format", "many", "MANY", magic=table.facts_of("nrrd").magic)
    path = _one(tmp_path / "one.nrrd")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "known", lambda: {"many": facts})
        patch.setattr("hyperslab.formats.detection.known", lambda: {"many": facts})
        with pytest.raises(UsageError, match="variables of many files are not listed"):
            read_groups(str(path))


def test_directories_of_another_format_are_read_from_a_url_if_it_says_so_and_never_as_zarr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boxes.py").write_text(
        "from hyperslab.formats.facts import Facts, Suffix\n"
        "ENDS = (Suffix('.box'),)\n"
        "FACTS = Facts('boxes', 'boxes', 'Box', 'Box (.box)', ENDS, documents=('box.json',))\n"
        "ENDS = (Suffix('.crate'),)\n"
        "MORE = Facts('crates', 'boxes', 'Crate', 'Crate (.crate)', ENDS,"
        " documents=('crate.json',), has_remote_stores=True)\n"
    )
    bring(tmp_path, "boxes", "boxes = boxes:FACTS\ncrates = boxes:MORE")
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    try:
        for url in ("memory://there/a.box", "memory://there/a.box/inner"):
            path, _ = formats.find(url)
            assert isinstance(path, RemoteFolder)
            with pytest.raises(FormatError, match=r"a\.box.*: Box stores are not read from a URL"):
                formats.detect(path)
        path, _ = formats.find("memory://there/a.box/b.zarr")
        assert formats.detect(path) == "zarr"
        path, _ = formats.find("memory://there/a.crate/inner")
        assert formats.detect(path) == "crates"
    finally:
        forget()


def test_formats_that_do_not_load_are_left_out_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(tmp_path, "broken-one", "one = no_such_module:FACTS")
    bring(tmp_path, "broken-two", "two = json:dumps")
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    with pytest.warns(UserWarning, match="is left out") as warned:
        assert "nrrd" in table.known()
    forget()
    said = sorted(str(one.message) for one in warned)
    assert [text.split("'")[1] for text in said] == ["one", "two"]
    assert "no_such_module" in said[0]
    assert "is not a hyperslab.formats.facts.Facts" in said[1]


REFUSED = {
    "ends": ("Facts('ends', 'x', 'X', 'X', suffixes=('.bad',))", "Facts.suffixes holds '.bad'"),
    "end": ("Facts('end', 'x', 'X', 'X', suffixes='.bad')", "Facts.suffixes is '.bad'"),
    "large": ("Facts('large', 'x', 'X', 'X', (Suffix('.BAD'),))", "Suffix.text is '.BAD'"),
    "bytes": ("Facts('bytes', 'x', 'X', 'X', magic=(b'BAD',))", "Facts.magic holds b'BAD'"),
    "text": ("Facts('text', 'x', 'X', 'X', magic=(Magic('BAD'),))", "Magic.text is 'BAD'"),
    "all": ("Facts('all', 'x', 'X', 'X', magic=(Magic(b''),))", "Magic.text is empty"),
    "far": ("Facts('far', 'x', 'X', 'X', magic=(Magic(b'BAD', 542),))", "Magic.offset is 542"),
    "alone": ("Facts('alone', 'x', 'X', 'X', magic=(Magic(b'BAD', beside=('.a',)),))", "beside is"),
    "needs": ("Facts('needs', 'x', 'X', 'X', libraries=(('one',),))", "Facts.libraries holds"),
    "lacks": ("Facts('lacks', 'x')", "missing 2 required positional arguments"),
    "memory": ("Facts('memory', 'x', 'X', 'X')", "a format named 'memory' exists already"),
    "nifti": ("Facts('nifti', 'x', 'X', 'X')", "a format named 'nifti' exists already"),
}
"Facts with which nothing can be done, by the name of their format, and why they are left out."


@pytest.mark.parametrize("name", list(REFUSED))
def test_facts_that_make_no_sense_are_left_out_with_a_warning(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, reason = REFUSED[name]
    module = f"refused_{name}"
    (tmp_path / f"{module}.py").write_text(
        f"from hyperslab.formats.facts import Facts, Magic, Suffix\nFACTS = {made}\n"
    )
    bring(tmp_path, f"refused-{name}", f"{name} = {module}:FACTS")
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    with pytest.warns(UserWarning, match="is left out") as warned:
        names = list(table.known())
    assert names == [*(one.name for one in table.BUILT_IN), "nrrd"]
    assert formats.is_array_file("a.nrrd")
    forget()
    (said,) = [str(one.message) for one in warned]
    assert f"the format '{name}' is left out" in said
    assert reason in said


def test_the_formats_of_this_package_are_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "another.py").write_text(
        "from hyperslab.formats.facts import Facts, Suffix\n"
        "FACTS = Facts('nifti', 'another', 'x', 'X', (Suffix('.nii', 'nii'),))\n"
        "MORE = Facts('more', 'another', 'x', 'X', (Suffix('.nii', 'nii'), Suffix('.more', 'm')))\n"
    )
    bring(tmp_path, "another-format", "nifti = another:FACTS\nmore = another:MORE")
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    assert {entry.name for entry in metadata.entry_points(group=table.ENTRY_POINTS)} >= {"more"}
    with pytest.warns(UserWarning, match="a format named 'nifti' exists already"):
        table.known()
    assert table.facts_of("nifti").module == "hyperslab.formats.nifti"
    assert table.known()["nifti"].module == "hyperslab.formats.nifti"
    assert formats.format_of_name("a.nii") == "nifti"
    assert formats.format_of_name("a.more") == "more"
    forget()


def _one(path: Path) -> Path:
    nrrd.write(str(path), np.ones((2, 3)), {"encoding": "raw"})
    return path
