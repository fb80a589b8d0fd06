"""Outside of `hyperslab.formats` no code knows a format by its name, or by ends of files' names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperslab.formats import table

PACKAGE = Path(__file__).parents[2] / "src" / "hyperslab"
FORMATS = PACKAGE / "formats"
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if FORMATS not in path.parents)
ALLOWED = {
    ("cli/run.py", "nii"): "what is written unless something else is asked for",
    ("cli/synth.py", "nii"): "what is written unless something else is asked for",
    ("apps/bids/brain.py", ".nii.gz"): "what BIDS has images called",
    ("apps/bids/brain.py", ".nii"): "what BIDS has images called",
    ("apps/bids/brain.py", "nifti"): "what BIDS has images be",
    ("apps/bids/brains.py", ".nii.gz"): "what BIDS has images called",
    ("apps/bids/fsl.py", ".nii.gz"): "what FSL writes",
    ("apps/bids/fsl.py", ".nii"): "what FSL writes",
    ("apps/bids/wanted.py", ".nii"): "what BIDS has images called",
    ("apps/bids/wanted.py", ".nii.gz"): "what BIDS has images called",
    ("plan/pipeline.py", "nii"): "what is written unless something else is asked for",
    ("workloads/synth.py", "nii"): "what is written unless something else is asked for",
    ("workloads/synth.py", "h5"): "what volumes that are made up are written as",
    ("testing/cases.py", "nii"): "what the suite of engines has written",
    ("testing/cases.py", "nii.gz"): "what the suite of engines has written",
    ("testing/cases.py", "h5"): "what the suite of engines has written",
    ("testing/contents.py", ".h5"): "what the suite of engines has written",
}
"Where a name stands nevertheless, and why."


def names() -> set[str]:
    """What formats of this package are called, here and on the command line, and their suffixes."""
    found = set()
    for facts in table.BUILT_IN:
        found |= {facts.name, facts.title}
        for suffix in facts.suffixes:
            found |= {suffix.text, suffix.word, suffix.title}
    return found - {""}


def test_the_names_are_those_of_the_table() -> None:
    assert {"nifti", "hdf5", "netcdf", "zarr", "nii.gz", ".nii.gz", ".mnc", "MINC"} <= names()


@pytest.mark.parametrize(
    "code",
    [
        "source.format == 'nifti'",
        "if name.endswith(('.h5', '.hdf5')): pass",
        "KINDS = {'zarr': 1}",
        "match kind:\n    case 'netcdf': pass",
        "call(format='nii')",
    ],
)
def test_a_name_is_found_wherever_it_stands(code: str) -> None:
    assert list(_texts(ast.parse(code))) != []


def test_sentences_about_formats_are_none() -> None:
    code = '"hdf5"\nclass A:\n    field: str\n    "nifti"\n'
    assert list(_texts(ast.parse(code))) == []


def test_no_format_is_known_by_its_name() -> None:
    assert SOURCES
    quoted = re.compile(f"([\"'])({'|'.join(map(re.escape, names()))})\\1")
    texts = {str(path.relative_to(PACKAGE)): path.read_text() for path in SOURCES}
    found = {
        (path, name): line
        for path, text in texts.items()
        if quoted.search(text)  # before it is parsed, which takes longer
        for name, line in _texts(ast.parse(text))
    }
    places = [f"{file}:{line}: {text!r}" for (file, text), line in found.items()]
    unexplained = [place for place, key in zip(places, found, strict=True) if key not in ALLOWED]
    assert unexplained == []
    assert ALLOWED.keys() - found.keys() == set(), "these are explained, but not there"


def _texts(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Texts that are the name of a format, with their lines; but for those that are docstrings."""
    known = names()
    sentences = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in sentences:
            continue
        if isinstance(node.value, str) and node.value in known:
            yield node.value, node.lineno
