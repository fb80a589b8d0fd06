"""Source files travel to workers as they are, with their neighbours and packages, and old copies
are forgotten.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperslab.errors import HyperslabError
from hyperslab.plan.function import refer
from hyperslab.plan.shipment import pack

LOADER = """
import json, pickle, sys
from hyperslab.plan.shipment import unpack
said = []
for path in sys.argv[1:]:
    shipment, ref = pickle.loads(open(path, "rb").read())
    unpack(shipment)
    function = ref.load()
    said.append([function(2), function.__code__.co_filename])
print(json.dumps(said))
"""


def load_elsewhere(*paths: Path) -> list[list[Any]]:
    """Load pickled shipments one after the other in a process that stands elsewhere."""
    done = subprocess.run(
        [sys.executable, "-c", LOADER, *map(str, paths)],
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: list[list[Any]] = json.loads(done.stdout)
    return said


def packed(target: str, path: Path) -> Path:
    import cloudpickle

    ref = refer(target)
    path.write_bytes(cloudpickle.dumps((pack([ref]), ref)))
    return path


def test_a_file_travels_with_its_neighbours(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "ship_near.py").write_text("def factor():\n    return 10\n")
    (home / "f.py").write_text("from ship_near import factor\ndef f(x):\n    return x * factor()\n")
    first = packed(f"{home}/f.py:f", tmp_path / "first")
    (home / "ship_near.py").write_text("def factor():\n    return 20\n")
    sys.modules.pop("ship_near")
    for name in [
        name
        for name, module in sys.modules.items()
        if getattr(module, "__file__", "") == f"{home}/f.py"
    ]:
        del sys.modules[name]
    from hyperslab.plan import function

    function._load.cache_clear()
    second = packed(f"{home}/f.py:f", tmp_path / "second")
    for path in home.iterdir():
        if path.is_file():
            path.unlink()
    (one, there), (two, elsewhere) = load_elsewhere(first, second)
    assert (one, two) == (20, 40), "the second shipment's neighbour replaces the first one's"
    assert not there.startswith(str(home))
    assert there != elsewhere


def test_a_module_of_a_package_travels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "home" / "ship_pkg" / "inner"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "work.py").write_text("def f(x):\n    return x + 1\n")
    monkeypatch.syspath_prepend(str(tmp_path / "home"))
    path = packed("ship_pkg.inner.work:f", tmp_path / "packed")
    package.parent.rename(tmp_path / "gone")
    assert load_elsewhere(path)[0][0] == 3


def test_what_is_installed_stays(tmp_path: Path) -> None:
    assert (
        pack(
            [refer("hyperslab.testing.functions:add"), refer("json:dumps"), refer(lambda x: x)]
        ).parcels
        == ()
    )


def test_a_file_edited_after_planning_is_refused(tmp_path: Path) -> None:
    (tmp_path / "g.py").write_text("def g(x):\n    return x\n")
    ref = refer(f"{tmp_path}/g.py:g")
    (tmp_path / "g.py").write_text("def g(x):\n    return -x\n")
    with pytest.raises(HyperslabError, match="edited after the run was planned"):
        pack([ref])


def test_threads_wait_for_a_module_that_one_of_them_imports(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(0.3)\ndef slow(x):\n    return x\n")
    ref = refer(f"{tmp_path}/slow.py:slow")
    from hyperslab.plan import function

    function._load.cache_clear()
    for name in [
        name
        for name, module in sys.modules.items()
        if getattr(module, "__file__", "") == ref.files[0][0]
    ]:
        del sys.modules[name]
    loaded: list[Any] = []
    threads = [threading.Thread(target=lambda: loaded.append(ref.load()(7))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loaded == [7] * 4


def test_neighbours_are_found_by_what_the_text_imports(tmp_path: Path) -> None:
    """Also where only a constant is taken from them, or only a function imports them."""
    (tmp_path / "ship_const.py").write_text("N = 4\n")
    (tmp_path / "ship_lazy.py").write_text("from ship_deeper import M\n")
    (tmp_path / "ship_deeper.py").write_text("M = 5\n")
    (tmp_path / "ship_unused.py").write_text("raise RuntimeError\n")
    (tmp_path / "h.py").write_text(
        "from ship_const import N\ndef h(x):\n    from ship_lazy import M\n    return x * N * M\n"
    )
    path = packed(f"{tmp_path}/h.py:h", tmp_path / "packed")
    for name in ("h", "ship_const", "ship_lazy", "ship_deeper", "ship_unused"):
        (tmp_path / f"{name}.py").unlink()
    assert load_elsewhere(path)[0][0] == 2 * 4 * 5


def test_a_module_that_comes_from_another_file_is_refused(tmp_path: Path) -> None:
    ref = refer("json:dumps")
    elsewhere = replace(ref, files=(("/elsewhere/json/__init__.py", ref.files[0][1]),))
    assert elsewhere.load() is json.dumps, "what is installed may lie elsewhere"
    with pytest.raises(HyperslabError, match="is not what was planned with"):
        replace(ref, files=(("/elsewhere/json/__init__.py", "0" * 64),)).load()


def test_a_module_that_the_worker_knew_before_is_loaded_anew(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "ship_known.py").write_text("def f(x):\n    return x\n")
    program = (
        f"import sys; sys.path.insert(0, {str(home)!r}); import ship_known; assert ship_known.f(2)"
        " == 2\n" + LOADER
    )
    sys.path.insert(0, str(home))
    try:
        (home / "ship_known.py").write_text("def f(x):\n    return x + 40\n")
        path = packed("ship_known:f", tmp_path / "packed")
    finally:
        sys.path.remove(str(home))
        sys.modules.pop("ship_known", None)
    (home / "ship_known.py").write_text("def f(x):\n    return x\n")
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0][0] == 42


def test_files_of_one_content_rest_each_on_its_own_neighbours(tmp_path: Path) -> None:
    """Whatever the process has loaded before: else a function would seem edited when it is not."""
    refs = []
    for place in ("first", "second"):
        folder = tmp_path / place
        folder.mkdir()
        (folder / "mine.py").write_text(f"# of {tmp_path}\nimport constant_of_tests\nf = abs\n")
        (folder / "constant_of_tests.py").write_text(f"VALUE = '{place}'\n")
        refs.append(refer(f"{folder}/mine.py:f"))
    for place, ref in zip(("first", "second"), refs, strict=True):
        names = [Path(name) for name, _ in ref.files]
        folder = tmp_path / place
        assert names == [folder / "mine.py", folder / "constant_of_tests.py"]
    assert refs[0].digest != refs[1].digest
