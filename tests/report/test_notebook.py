"""What a notebook shows of sources, plans and runs: through IPython's own formatter, read as a
browser reads it.
"""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.formatters import DisplayFormatter

import hyperslab
from hyperslab.arrays import Array
from hyperslab.arrays.partition import Rule
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.gathering import gather
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.formats import open_source
from hyperslab.markup import MAX_LINES, fragment, grid_svg, regular_cuts
from hyperslab.report.notebook import run_html, time_bar
from hyperslab.report.summary import Part, summarise
from hyperslab.report.verdict import judge
from tests.report import made_traces

HOSTILE = "</td><script>alert(1)</script> & 'quotes\""
FUNCTIONAL = Path(__file__).parents[1] / "data" / "mri" / "functional.nii"
LONGEST_FRAGMENT = 12_000


class _Fragment(HTMLParser):
    """Rows of the table, the title, the note, and the pictures as XML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.open: list[str] = []
        self.cells: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)
        self.close()
        assert self.open == []
        assert not self.tags & {"script", "img", "link", "iframe", "style", "a"}
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
        self.rows = dict(zip(self.cells[::2], self.cells[1::2], strict=True))
        self.pictures = [ET.fromstring(picture) for picture in re.findall(r"<svg.*?</svg>", text)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        self.open.append(tag)
        if tag in ("th", "td"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "th" in self.open or "td" in self.open:
            self.cells[-1] += data

    def words(self) -> list[str]:
        return [
            text.text or ""
            for picture in self.pictures
            for text in picture.iter("{http://www.w3.org/2000/svg}text")
        ]


def _shown(thing: Any) -> _Fragment:
    """What IPython's formatter makes of it; an exception of _repr_html_ would leave no HTML at
    all.
    """
    formats, _ = DisplayFormatter().format(thing)  # type: ignore[no-untyped-call]
    assert set(formats) == {"text/plain", "text/html"}
    assert len(formats["text/html"]) < LONGEST_FRAGMENT
    return _Fragment(formats["text/html"])


def _lines(found: _Fragment) -> int:
    """Inner cuts that are drawn, over all faces."""
    paths = found.pictures[0].findall("{http://www.w3.org/2000/svg}path")
    return sum((path.get("d") or "").count("M") for path in paths if path.get("fill") == "none")


@pytest.fixture(scope="module")
def chunked(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("html") / "chunked.h5"
    with h5py.File(path, "w") as file:
        values = np.zeros((40, 30, 20), "f4")
        file.create_dataset("d", data=values, chunks=(10, 10, 5), compression="gzip", shuffle=True)
        file.create_dataset("empty", data=np.zeros((0, 3)))
        file.create_dataset("scalar", data=1.0)
    return str(path)


def test_an_array_in_a_file_says_what_it_is_and_draws_its_chunks(chunked: str) -> None:
    found = _shown(hyperslab.open(f"{chunked}::d", values="stored"))
    assert found.rows["file"] == chunked
    assert found.rows["shape"].startswith("40 x 30 x 20 (")
    assert found.rows["stored as"] == "float32, shuffle then deflate"
    assert found.rows["chunks"] == "10 x 10 x 5"
    assert found.rows["size"].startswith("96.0 kB, ")
    assert found.rows["values"] == "stored, float32, 96.0 kB in memory"
    assert [word.rpartition(" ")[2] for word in found.words()] == ["30", "20", "40"]
    assert _lines(found) == 2 * (3 + 2 + 3), "each axis is cut on two of the three faces"


def test_a_scaled_image_shows_its_real_values() -> None:
    found = _shown(hyperslab.open(FUNCTIONAL))
    assert found.rows["values"] == "real, float64, 171 kB in memory"
    assert found.rows["shape"] == "17 x 21 x 3 x 20 (x, y, z, t)"
    assert found.rows["chunks"] == "one piece"
    assert _lines(found) == 0
    assert found.words() == ["y 21", "t 20", "x 17"], "the three longest axes"


@pytest.mark.parametrize("name", ["empty", "scalar"])
def test_arrays_without_elements_or_axes_have_no_picture(chunked: str, name: str) -> None:
    found = _shown(open_source(f"{chunked}::{name}"))
    assert found.pictures == []
    assert found.rows["shape"] == {"empty": "0 x 3 (dim_0, dim_1)", "scalar": "scalar"}[name]


@pytest.mark.parametrize(
    ("shape", "faces"), [((7,), 1), ((3, 4), 1), ((2, 3, 4), 3), ((2, 3, 4, 5), 3)]
)
def test_arrays_in_memory(shape: tuple[int, ...], faces: int) -> None:
    found = _shown(hyperslab.open(np.zeros(shape, "i2")))
    assert found.rows["size"] == f"{2 * math.prod(shape)} B"
    paths = found.pictures[0].findall("{http://www.w3.org/2000/svg}path")
    assert sum(path.get("fill") != "none" for path in paths) == faces


def test_what_cannot_be_read_as_meant_is_said() -> None:
    source = _source(unscalable="it has no scale", real=np.dtype("f8"))
    array = hyperslab.blocks.view.ArrayView(source)
    found = _shown(array)
    assert repr(array).endswith(" (4, 4) real, which cannot be computed: it has no scale>")
    assert found.rows["values"] == "real; they cannot be computed: it has no scale"
    found = _shown(_source(broken=f"cut off {HOSTILE}"))
    assert found.rows["broken"] == f"cut off {HOSTILE}"
    assert found.pictures == []


def _source(**changes: Any) -> ArraySource:
    about = {
        "url": f"/data/{HOSTILE}.nii",
        "name": HOSTILE,
        "format": "nifti",
        "shape": (4, 4),
        "dims": (HOSTILE, "y"),
    }
    kinds = {
        "axes": (0, 1),
        "stored": np.dtype("i2"),
        "real": np.dtype("i2"),
        "chunks": None,
        "reason": "r",
    }
    return ArraySource(**{**about, **kinds, **changes})


def test_text_from_files_stays_text() -> None:
    found = _shown(_source())
    assert found.rows["file"] == f"/data/{HOSTILE}.nii"
    assert HOSTILE in found.words()[0]


def test_a_set_of_sources_shows_how_they_lie() -> None:
    files = [np.zeros((4, 6), "u1"), np.zeros((2, 6), "u1"), np.zeros((3, 6), "u1")]
    set_of = hyperslab.arrays.sets.concatenated(
        [source for file in files for source in gather(file).sources], 0
    )
    found = _shown(set_of)
    assert found.rows["arrays"] == "1 array"
    assert found.rows["shape"] == "9 x 6"
    assert found.rows["size"] == "54 B"
    assert _lines(found) == 2, "three files, one after the other"
    apart = _shown(hyperslab.arrays.sets.independent(set_of.sources))
    assert apart.rows["arrays"] == "3 arrays"
    assert apart.rows["shape"] == "4 x 6 (the first one's)"


def _double(block: Array, gain: int = 2) -> Array:
    return block * np.int16(gain)


def _fail(_block: Array) -> Array:
    raise ValueError(HOSTILE)


def _pipeline(function: Any, out: Path, **params: Any) -> hyperslab.Pipeline:
    values = np.ones((30, 20, 10), "i2")
    return hyperslab.Pipeline(values).map(function, params).write(str(out))


def test_a_plan_says_what_it_will_do_and_draws_its_blocks(tmp_path: Path) -> None:
    prepared = prepare(
        _pipeline(_double, tmp_path, gain=3), Options(rule=Rule("blocks", (3, 2, 1)), workers=2)
    )
    found = _shown(prepared.plan)
    assert found.rows["does"] == "read → _double(gain=3) → write nii, blocks"
    assert found.rows["over"] == "1 array in 1 file, real values"
    assert found.rows["blocks"] == "6 by blocks=3x2x1, the largest 10 x 10 x 10"
    assert found.rows["tasks"] == "6 in 1 stage"
    assert found.rows["reads"] == found.rows["writes"] == "12.0 kB"
    assert found.rows["fingerprint"] == prepared.plan.fingerprint[:12]
    assert _lines(found) == 2 * (2 + 1 + 0)
    more = _shown(prepared)
    assert more.rows.keys() - found.rows.keys() == {"slots"}
    assert more.rows["slots"].startswith("2 workers x 1 thread, ")


def test_a_run_shows_state_numbers_verdict_and_where_its_time_went(tmp_path: Path) -> None:
    result = hyperslab.run(
        _pipeline(_double, tmp_path), engine="threads", workers=2, rule=Rule("blocks", (3,))
    )
    found = _shown(result)
    assert "run done" in found.text
    assert found.rows["tasks"] == "3 tasks"
    assert found.rows["outputs"] == f"3 files in {tmp_path}"
    assert found.rows["report"] == str(result.folder / "report.html")
    told = [re.fullmatch(r"(\w+) .* %, .*s", word) for word in found.words()]
    assert {match[1] for match in told if match} >= {"read", "compute", "write"}
    drawn = found.pictures[0].iter("{http://www.w3.org/2000/svg}rect")
    bars = [rect for rect in drawn if rect.get("rx") is None]
    assert sum(float(bar.get("width", 0)) for bar in bars) == pytest.approx(300, abs=1)


def test_cause_evidence_and_remedy_are_rows_of_their_own() -> None:
    trace = made_traces.trace([made_traces.span("w0/t0", i, "compute", i, 1.0) for i in range(8)])
    found = _Fragment(run_html("run done", trace, summarise(trace), [], {}))
    told = judge(trace, summarise(trace)).told()
    assert told.keys() >= {"cause", "evidence"}
    assert told.items() <= found.rows.items()


def test_a_failed_run_names_what_failed(tmp_path: Path) -> None:
    result = hyperslab.run(
        _pipeline(_fail, tmp_path),
        engine="threads",
        workers=1,
        rule=Rule("blocks", (5,)),
        retries=0,
        check=False,
    )
    found = _shown(result)
    assert "run failed" in found.text
    assert found.rows["failed"].count(HOSTILE) == 1
    assert found.rows["failed"].startswith("5 tasks: ")
    assert "test_notebook.py:" in found.rows["failed"]
    assert found.rows["tasks"] == "5 tasks, 5 attempts lost"


def test_a_bar_has_a_part_for_all_that_took_time() -> None:
    bar = ET.fromstring(
        time_bar(
            [Part("read", 3, "reading"), Part("compute", 0, "computing"), Part("idle", 1, "idle")]
        )
    )
    words = [text.text for text in bar.iter("{http://www.w3.org/2000/svg}text")]
    assert words == ["read 75 %, 3.00 s", "idle 25 %, 1.00 s"]
    assert time_bar([Part("read", 0.0, "reading")]) == ""


@given(
    axes=st.lists(st.tuples(st.integers(1, 10**7), st.integers(1, 10**7)), min_size=1, max_size=6),
    name=st.text(),
)
def test_any_grid_is_a_well_formed_picture_inside_its_frame(
    axes: list[tuple[int, int]], name: str
) -> None:
    cuts = [regular_cuts(extent, max(piece, extent // 1000 + 1)) for extent, piece in axes]
    text = grid_svg(cuts, [HOSTILE] * len(cuts))
    picture = ET.fromstring(text)
    width, height = (float(picture.get(side, 0)) for side in ("width", "height"))
    for path in picture.findall("{http://www.w3.org/2000/svg}path"):
        corners = [
            tuple(map(float, pair.split()))
            for pair in re.findall(r"M([-\d.]+ [-\d.]+)", path.get("d") or "")
        ]
        assert all(0 <= x <= width and 0 <= y <= height for x, y in corners)
    assert text.count("M") <= 2 * 3 * MAX_LINES + 3
    assert _Fragment(fragment("t", {"n": "x"})).rows == {"n": "x"}


@given(extent=st.integers(0, 1000), piece=st.integers(0, 1100))
def test_regular_cuts_are_the_multiples_and_the_end(extent: int, piece: int) -> None:
    cuts = regular_cuts(extent, piece)
    assert cuts[-1] == extent
    assert all(b - a == max(piece, 1) for a, b in itertools.pairwise(cuts[:-1]))
    assert all(a < b for a, b in itertools.pairwise(cuts))
