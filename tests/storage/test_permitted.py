"""Folders from which somebody who is not root has taken permissions away."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.nobody import as_nobody
from tests.nobodys import nobodys

SCRIPT = """
import sys
from pathlib import Path
from hyperslab.storage.permitted import open_folders, remove_tree

top = Path(sys.argv[1])
inner = top / "a" / "b"


def close():
    inner.chmod(0)
    inner.parent.chmod(0o500)


inner.mkdir(parents=True)
(inner / "x").write_text("x")
(inner.parent / "link").symlink_to("/usr")
close()
open_folders(top)
(inner / "x").rename(inner.parent / "y")
print((inner.parent / "y").read_text(), oct(inner.parent.stat().st_mode))
close()
remove_tree(top)
remove_tree(top)
print(top.exists())
"""


@pytest.fixture
def place() -> Iterator[Path]:
    with nobodys("permitted") as folder:
        yield folder


def test_folders_that_are_closed(place: Path) -> None:
    """They are opened, and removed; links are left alone."""
    process = as_nobody([sys.executable, "-c", SCRIPT, str(place / "top")])
    told, errors = process.communicate()
    assert (told, errors) == ("x 0o40700\nFalse\n", "")
