"""Every source has one way of reading, every sink one form of writing; nobody asks for names."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from hyperslab import formats, native
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Codec, Scaling, Values
from hyperslab.blocks import reading, writing
from hyperslab.blocks.reading import gzipindex
from hyperslab.blocks.reading.ways import WAYS, way_of
from hyperslab.blocks.writing.forms import FORMS, form_of
from tests.compared import sides

PACKAGE = Path(formats.__file__).parents[1]
VALUES = np.arange(160 * 80 * 90, dtype=np.int32).reshape(160, 80, 90)
REGION = Hyperslab((7, 3, 89), (20, 30, 40), (3, 2, -2))


def _sources(folder: Path) -> dict[str, ArraySource]:
    """A source for each way on this machine, by the way's name."""
    for name in ("plain.nii", "packed.nii.gz"):
        path = str(folder / name)
        sink = formats.module("nifti").sink(path, VALUES.shape, VALUES.dtype, Header())
        writing.write(sink, VALUES)
    with h5py.File(folder / "made.h5", "w") as file:
        file.create_dataset("chunks", data=VALUES, chunks=(16, 16, 16), compression="gzip")
        layout = h5py.VirtualLayout(VALUES.shape, VALUES.dtype)
        layout[:] = h5py.VirtualSource("made.h5", "chunks", VALUES.shape)
        file.create_virtual_dataset("virtual", layout)
    return {
        "memory": formats.open_array(VALUES),
        "library": formats.open_source(f"{folder / 'made.h5'}::virtual"),
        "gzip": gzipindex.indexed(formats.open_source(str(folder / "packed.nii.gz"))),
        "chunks": formats.open_source(f"{folder / 'made.h5'}::chunks"),
        "spans": formats.open_source(str(folder / "plain.nii")),
    }


def test_every_kind_of_source_has_its_way(tmp_path: Path) -> None:
    sources = _sources(tmp_path)
    assert {way.name for way in WAYS} == {*sources, "requests"}
    for name, source in sources.items():
        assert way_of(source).name == name, source.reason
        block = reading.read(source, REGION)
        np.testing.assert_array_equal(block, VALUES[REGION.slices()])
        assert reading.read_operations(source, REGION) > 0
        assert 0 < reading.read_nbytes(source, REGION) <= VALUES.nbytes


def test_a_part_of_a_source_is_read_alike(tmp_path: Path) -> None:
    """What a way leaves out of a source's tables is of other regions."""
    low, high = REGION.bounds
    box = Hyperslab(low, tuple(z - a for a, z in zip(low, high, strict=True)))
    for source in _sources(tmp_path).values():
        part = way_of(source).part(source, box.permute(source.axes))
        np.testing.assert_array_equal(reading.read(part, REGION), VALUES[REGION.slices()])
        if source.chunks is not None and len(source.chunks) > 1:
            assert part.chunks is not None
            assert len(part.chunks) < len(source.chunks)


def test_what_needs_the_core_goes_to_libraries_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = _sources(tmp_path)
    monkeypatch.setattr(native, "core", None)
    names = {name: way_of(source).name for name, source in sources.items()}
    assert names == {
        "memory": "memory",
        "library": "library",
        "gzip": "library",
        "chunks": "library",
        "spans": "spans",
    }


def test_filters_that_the_core_is_not_told_to_undo_go_to_libraries(tmp_path: Path) -> None:
    source = _sources(tmp_path)["chunks"]
    for codecs in [(Codec("deflate", (6,)),), (Codec("a_new_one"), *source.codecs)]:
        untold = replace(source, codecs=codecs)
        assert way_of(untold).name == "library"
        np.testing.assert_array_equal(reading.read(untold, REGION), VALUES[REGION.slices()])


@pytest.mark.parametrize("values", ["real", "stored"])
def test_what_a_library_keeps_is_not_scaled_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: Values
) -> None:
    kept = VALUES.astype(np.float64)[REGION.slices()]
    source = replace(
        _sources(tmp_path)["library"],
        stored=kept.dtype,
        real=kept.dtype,
        scaling=Scaling(3.0, 1.0),
    )
    expected = kept.copy()
    if values == "real":
        expected = kept * 3 + 1
    monkeypatch.setattr(formats.module("hdf5"), "read_reference", lambda *asked: kept)
    for _ in range(2):
        np.testing.assert_array_equal(reading.read(source, REGION, values=values), expected)


@pytest.mark.parametrize(
    ("name", "encoding", "form", "files"),
    [
        ("x.nii", Encoding(), "placed", 1),
        ("x.nii.gz", Encoding(), "pieces", 1),
        ("x.h5", Encoding(chunks=(16, 16, 16)), "pieces", 1),
        ("x.h5", Encoding(virtual=True), "parts", 6),
        ("x.zarr", Encoding(chunks=(80, 80, 45)), "store", 4),
    ],
)
def test_every_kind_of_sink_has_its_form(
    tmp_path: Path, name: str, encoding: Encoding, form: str, files: int
) -> None:
    describe = formats.module(formats.format_of_name(name)).sink
    sink = describe(str(tmp_path / name), VALUES.shape, VALUES.dtype, Header(), None, encoding)
    assert form_of(sink).name == form
    assert type(form_of(sink)).__name__ == FORMS[form]
    assert form_of(sink).files(sink, 5) == files
    partial = str(tmp_path / f".{name}.0-00aa.part")
    assert not form_of(sink).is_allocated(sink, partial)
    if form == "store":
        assert form_of(sink).folders(sink) == 2 + 2 + 2
    writing.allocate(sink, partial)
    assert form_of(sink).is_allocated(sink, partial)


def test_a_region_that_was_changed_differs(tmp_path: Path) -> None:
    path = str(tmp_path / "x.nii")
    sink = formats.module("nifti").sink(path, VALUES.shape, VALUES.dtype, Header())
    partial, whole = str(tmp_path / ".x.nii.0-00aa.part"), Hyperslab.full(VALUES.shape)
    writing.allocate(sink, partial)
    written = writing.write_region(sink, partial, whole, VALUES)
    form = form_of(sink)
    assert form.is_kept(sink, partial, written)
    assert not form.differs(sink, partial, whole, written)
    with Path(partial).open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    assert form.differs(sink, partial, whole, written)
    Path(partial).write_bytes(b"")
    assert not form.is_kept(sink, partial, written)


ASKED = re.compile(r"\.form\b|\b(way|form)_of\b|\b(way|form)\.name\b")
"What a module holds that compares them, and few others do."
TELLING = {"way", "way_of", "form", "form_of"}
"Words of an expression that is a way or a form."


def test_nobody_compares_the_names_of_ways_and_forms() -> None:
    """Whoever wants to know something asks the way or the form."""
    texts = {path.relative_to(PACKAGE): path.read_text() for path in PACKAGE.rglob("*.py")}
    asking = {path: text for path, text in texts.items() if ASKED.search(text)}
    assert len(asking) > 10
    found = {path: _comparing(text) for path, text in asking.items()}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        'sink.form == "parts"',
        'sink.form in ("placed", "pieces")',
        'match sink.form:\n    case "parts":\n        pass',
        '{"parts": 1, "store": 2}[sink.form]',
        "files.get(sink.form, 1)",
        'sink.form.startswith("p")',
        'form_of(sink).name == "parts"',
        'way_of(source).name != "library"',
        "is_quick = way.name in QUICK",
        "isinstance(way_of(source), Gzip)",
        "type(form_of(sink)) is Parts",
        "form_of(sink) == PARTS",
    ],
)
def test_a_comparison_of_ways_or_forms_is_found(text: str) -> None:
    assert ASKED.search(text)
    assert _comparing(text)


@pytest.mark.parametrize(
    "text",
    [
        "form_of(sink).files(sink, 5) == files",
        "way_of(source).unit(source) == source.shape",
        "way = way_of(source)\nif way.fills and source.name == name:\n    pass",
        "_form(sink.form)",
        "repr(sink.form)",
        "row = {'way': way_of(source).words}[name]",
    ],
)
def test_what_a_way_or_a_form_says_is_no_name_of_it(text: str) -> None:
    assert ASKED.search(text)
    assert not _comparing(text)


def _comparing(text: str) -> list[int]:
    """Lines in which a source compares ways, forms or their names, or looks something up by
    them.
    """
    nodes = ast.walk(ast.parse(text))
    return [_line(node) for node in nodes if any(map(_tells_which, _looked_at(node)))]


def _line(node: ast.AST) -> int:
    line: int = getattr(node, "lineno", 0)
    return line


def _looked_at(node: ast.AST) -> list[ast.expr]:
    """What a node compares, looks up, or wants to know the class of."""
    match node:
        case ast.Subscript(_, key):
            return [key]
        case ast.Call(ast.Attribute(_, "get"), [key, *_]):
            return [key]
        case ast.Call(ast.Name("isinstance"), [one, *_]):
            return [one]
    return sides(node)


def _tells_which(node: ast.expr) -> bool:
    """Whether an expression is the name of a way or a form, its class, or itself."""
    match node:
        case ast.Attribute(_, "form"):
            return True
        case ast.Attribute(one, "name"):
            return _is_one(one)
        case ast.Call(ast.Name("type"), [one]):
            return _is_one(one)
    return _is_one(node)


def _is_one(node: ast.expr) -> bool:
    """Whether an expression is a way or a form."""
    match node:
        case ast.Name(word) | ast.Call(ast.Name(word)):
            return word in TELLING
    return False
