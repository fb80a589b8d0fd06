"""Functions of the user's: a change of their code is a change of the experiment, wherever they come
from; nothing of them is imported to see it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.apps.experiment.design.functions import digests_of
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.errors import UsageError
from tests.apps.experiment.specs import TEXT

NOWHERE = Path("/nowhere")
RUINOUS = "raise SystemExit('nobody asked for it to be imported')\n"


@pytest.fixture
def measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package where the command is given, two of whose modules import one another."""
    folder = tmp_path / "measures"
    folder.mkdir()
    (folder / "__init__.py").write_text(RUINOUS)
    (folder / "mean.py").write_text("import numpy\nfrom . import weights\n" + RUINOUS)
    (folder / "weights.py").write_text("import measures.mean\n" + RUINOUS)
    (folder / "other.py").write_text(RUINOUS)
    monkeypatch.chdir(tmp_path)
    return folder


def _asked(folder: Path, workload: str) -> Experiment:
    path = folder / "spec.toml"
    path.write_text(TEXT.replace('"increment"', f'"{workload}"'))
    return Experiment.of(find(str(path)).load(None), folder / "out")


@pytest.mark.parametrize("workload", ["measures.mean:work", "measures/mean.py:work"])
def test_a_function_that_has_changed_is_refused(
    workload: str, measures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = _asked(tmp_path, workload)
    begun.directory.root.mkdir()
    begun.directory.begin(begun.loaded)
    (measures / "other.py").write_text("")
    with monkeypatch.context() as patch:
        patch.chdir("/")
        begun.directory.require_unchanged(_asked(tmp_path, workload).loaded)
    (measures / "mean.py").write_text("from . import weights\n")
    with pytest.raises(UsageError, match=r"files\.mean\.py: '.*', was '"):
        begun.directory.require_unchanged(_asked(tmp_path, workload).loaded)


def test_what_a_function_imports_from_beside_it_is_its_code(measures: Path) -> None:
    assert set(digests_of("measures.mean:work", NOWHERE)) == {
        "__init__.py",
        "mean.py",
        "weights.py",
    }
    assert set(digests_of("measures:work", NOWHERE)) == {"__init__.py"}


def test_levels_of_the_factor_are_functions_too(measures: Path, tmp_path: Path) -> None:
    """Also two whose files have one name."""
    (tmp_path / "other.py").write_text("")
    levels = 'workload = ["measures.other:work", "other.py:work"]'
    text = TEXT.replace("[vary]", f"[grid]\n{levels}\n\n[vary]")
    path = tmp_path / "spec.toml"
    path.write_text(text.replace("delay = 0\n", 'delay = 0\nworkload = "increment"\n'))
    digests = find(str(path)).load(None).digests
    assert set(digests) == {"other.py", "other.py:work, other.py"}
    assert len(set(digests.values())) == 2


def test_functions_without_code_of_the_users() -> None:
    """Those of this package, whose version is recorded, and those that are compiled in."""
    assert digests_of("hyperslab.apps.experiment.lock:sleep", NOWHERE) == {}
    assert digests_of("sys:intern", NOWHERE) == {}
    with pytest.raises(UsageError, match=r"workload nowhere\.at_all: there is no such module in"):
        digests_of("nowhere.at_all:work", NOWHERE)
