"""The line that a failure names is the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperslab.arrays.slab import Hyperslab
from hyperslab.plan.failure import describe_failure
from hyperslab.plan.function import refer
from hyperslab.plan.steps import call


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_libraries_on_a_path_of_their_own_are_not_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """As PYTHONPATH and .pth files name them, outside the interpreter's own folders."""
    library = tmp_path / "other" / folder
    library.mkdir(parents=True)
    name = f"lib_{folder.partition('-')[0]}"
    (library / f"{name}.py").write_text("def deep(block):\n    return block.foo\n")
    mine = tmp_path / "project" / "mine.py"
    mine.parent.mkdir()
    mine.write_text(f"import {name}\n\n\ndef own(block):\n    return {name}.deep(block)\n")
    monkeypatch.syspath_prepend(str(library))
    function: Any = refer(f"{mine}:own")
    with pytest.raises(AttributeError) as raised:
        call(function.load(), np.zeros(3), {}, {}, Hyperslab.full((3,)))
    found = describe_failure(raised.value, "", [function], [call.__code__])
    assert found.frame is not None
    assert (Path(found.frame.file).name, found.frame.line) == ("mine.py", 5)
