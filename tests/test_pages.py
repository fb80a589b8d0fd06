"""What pages say of the code is so: the tree, names, numbers; and every page can be found."""

from __future__ import annotations

import ast
import builtins
import functools
import re
import tomllib
from collections.abc import Iterator, Sequence

import pytest

from tests.test_layout import LEAVES, PACKAGE, ROOMS, ROOT, SOURCES, module_name


def _root_contract() -> list[list[str]]:
    """The rooms and leaves on each line of the contract of the whole package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (lines,) = (one["layers"] for one in contracts if one.get("containers") == ["hyperslab"])
    return [re.findall(r"\w+", line) for line in lines]


def test_the_note_on_rooms_counts_what_is_there() -> None:
    lines = _root_contract()
    leaves = LEAVES - {"__init__"}
    assert {name for line in lines for name in line} - {"_native"} == ROOMS | leaves
    note = (ROOT / "docs" / "design" / "0011-rooms.md").read_text()
    assert f"{len(ROOMS)} folders, and {len(leaves)} leaves at the root." in note
    assert f"Imports go down {len(lines)} lines" in note
    rows = re.findall(r"^\| (`.*?) \|", note, re.MULTILINE)
    told = [re.findall(r"`(\w+)`", row) for row in rows]
    assert told == [[name for name in line if name != "_native"] for line in lines]


def test_every_page_is_in_the_navigation() -> None:
    """mkdocs builds a page that is not, and nobody finds it. What lies deeper belongs to a page of
    `papers`, which links to it.
    """
    docs = ROOT / "docs"
    pages = {str(path.relative_to(docs)) for path in [*docs.glob("*.md"), *docs.glob("*/*.md")]}
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    shown = re.findall(r": ([\w./'-]+\.md)$", navigation, re.MULTILINE)
    assert len(pages) > 60
    assert sorted(shown) == sorted(pages)


def test_the_layout_page_describes_thetree_of() -> None:
    described = set(_described((ROOT / "docs" / "layout.md").read_text()))
    modules = {str(p.relative_to(ROOT)) for p in SOURCES if p.name != "__init__.py"} | {
        "src/hyperslab/__init__.py"
    }
    packages = {str(p.parent.relative_to(ROOT)) for p in SOURCES if p.name == "__init__.py"}
    assert {path for path in described if not (ROOT / path).exists()} == set()
    assert (modules | packages) - described == set()


def test_what_the_layout_page_names_is_there() -> None:
    """Words in backquotes: modules, files, functions, classes, methods."""
    page = (ROOT / "docs" / "layout.md").read_text()
    prose = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    named = set(re.findall(r"`([\w./]+)`", prose))
    assert len(named) > 60
    assert {word for word in named if not _is_there(word)} == set()


@pytest.mark.parametrize(
    ("word", "is_there"),
    [
        ("driver.run", True),
        ("blocks.reading.gzipindex.can_be_indexed", True),
        ("BatchEngine.see_out", True),
        ("ways/gzip.py", True),
        ("driver.gzipindex", False),  # the module is elsewhere
        ("blocks.reading.can_be_indexed", False),  # and so is the function
        ("BatchEngine.can_be_indexed", False),
        ("ways/detection.py", False),
    ],
)
def test_a_name_is_there_where_it_is_said_to_be(word: str, is_there: bool) -> None:
    assert _is_there(word) is is_there


def _is_there(word: str) -> bool:
    """Whether a word is a file, a module, or something that the module or class before its last
    dot defines.
    """
    if "/" in word or word.endswith((".py", ".rs", ".toml", ".md", ".c", ".o")):
        below = word.rstrip("/")
        places = (PACKAGE, *(ROOT / "rust" / crate for crate in ("core", "tierfs", "filecalls")))
        return (ROOT / below).exists() or any(any(p.rglob(below)) for p in places)
    return word in _all_names() or hasattr(builtins, word)


@functools.cache
def _all_names() -> set[str]:
    """Modules, and what they and their classes define, by their full names and the ends of
    these.
    """
    full: set[str] = set()
    for path in SOURCES:
        module = module_name(path)
        tree = ast.parse(path.read_text())
        full |= {module, *(f"{module}.{name}" for name in _members(tree.body))}
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        full |= {f"{module}.{one.name}.{name}" for one in classes for name in _members(one.body)}
    parts = [name.split(".") for name in full]
    return {".".join(one[first:]) for one in parts for first in range(len(one))}


def _members(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Names that statements define, and those that a module offers in place of others."""
    for node in body:
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                yield name
            case ast.AnnAssign(ast.Name(name)):
                yield name
            case ast.Assign([ast.Name("__all__")], ast.List(offered)):
                yield from map(ast.literal_eval, offered)
            case ast.Assign([ast.Name(name)]):
                yield name


def test_the_layout_page_describes_the_core() -> None:
    described = set(_described((ROOT / "docs" / "layout.md").read_text(), "rust/core/src/"))
    folders = [ROOT / "rust" / "core" / "src", ROOT / "rust" / "python" / "src"]
    files = [path for folder in folders for path in folder.rglob("*.rs")]
    modules = {str(p.relative_to(ROOT)) for p in files if p.stem not in ("lib", "mod")}
    rooms = {str(p.parent.relative_to(ROOT)) for p in files if p.stem in ("lib", "mod")}
    assert modules
    assert described == modules | rooms


@pytest.mark.parametrize("crates", [["tierfs"], ["scratch"], ["filecalls"], ["links", "programs"]])
def test_the_layout_page_describes_programs(crates: Sequence[str]) -> None:
    folders = [ROOT / "rust" / crate / "src" for crate in crates]
    page = (ROOT / "docs" / "layout.md").read_text()
    described = _described(page, f"rust/{crates[0]}/src/")
    files = [path for folder in folders for path in [folder, *folder.rglob("*.rs")]]
    assert set(described) == {str(path.relative_to(ROOT)) for path in files}


def _described(page: str, root: str = "src/hyperslab/") -> Iterator[str]:
    """Paths in the page's fenced tree from `root` on: deeper is further right, a folder ends in
    "/".
    """
    tree = re.search(rf"^```\w*\n({root}.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert tree, f"docs/layout.md has no fenced block that begins with {root}"
    above: list[tuple[int, str]] = []
    for line in tree[1].splitlines():
        if not (entry := re.match(r"[\s│├└─]*", line)) or not line[entry.end() :]:
            continue
        indent, name = entry.end(), line[entry.end() :].split()[0]
        above = [(depth, folder) for depth, folder in above if depth < indent]
        yield "/".join([folder for _, folder in above] + [name.rstrip("/")])
        if name.endswith("/"):
            above.append((indent, name.rstrip("/")))
