"""How commands start: which libraries they import, and what waits until they have."""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from hyperslab.cli import starting
from tests.system.end_to_end.command import ANATOMICAL

doctor = importlib.import_module("hyperslab.cli.doctor")
LIBRARIES = ("numpy", "nibabel", "h5py", "zarr", "scipy.ndimage", "pyarrow", "pydantic", "dask")
COUNTING = """
import contextlib, json, sys
workers = []
def count(event, told):
    if event == "subprocess.Popen" and "hyperslab.engines.pool.worker" in str(told[1]):
        workers.append("numpy" in sys.modules)
sys.addaudithook(count)
from hyperslab.cli import main
with contextlib.suppress(SystemExit):
    main(sys.argv[1:])
"""
"Notes of each worker that a line starts whether that was after the imports."
IMPORTED = f"""{COUNTING}
print([name for name in {LIBRARIES} if name in sys.modules], workers, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        (["--help"], []),
        (["info", str(ANATOMICAL)], ["numpy", "nibabel"]),
        (
            ["run", "stats", str(ANATOMICAL), "-o", "x", "--dry-run", "--workers", "2"],
            ["numpy", "nibabel"],
        ),
    ],
    ids=lambda line: " ".join(line[:1]),
)
def test_a_verb_imports_the_libraries_that_it_needs(line: list[str], needed: list[str]) -> None:
    words = [sys.executable, "-c", IMPORTED, *line]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr == f"{needed} []\n"


HEAVY = {"bokeh", "dask", "h5py", "numpy.ma", "pandas", "pydantic", "pyspark", "xarray", "zarr"}
"What no run imports that neither needs nor is given it."
OF_DRIVERS = {"pyarrow", "rich", "typer"}
"What a driver imports, and its workers do not; nibabel is for the one that waits beside it."
MOST_OF_A_DRIVER, MOST_OF_A_WORKER = 235, 120
"""Modules of our own that a run may import, with some room: whoever adds one finds it here where
only some runs need it, which may import it in a function.
"""
TELLING_WHY = "hyperslab.report.verdict.rules"
MOST_TO_TELL_WHY = 17
"""Modules more that say what limited a run, and that one of a second or more imports, as on a busy
machine.
"""
SEEN = """
import sys
import hyperslab
seen = hyperslab.Fold(lambda block: set(sys.modules), set.union, finish=sorted)
"""
TOLD = f"""{COUNTING}
print(json.dumps([workers, sorted(sys.modules)]))
"""


def test_a_run_imports_what_it_needs(tmp_path: Path) -> None:
    """In its driver, which writes a page, and in its one worker, which was started ahead."""
    (tmp_path / "modules.py").write_text(SEEN)
    function = f"{tmp_path / 'modules.py'}:seen"
    line = ["run", function, str(ANATOMICAL), "-o", str(tmp_path / "out"), "--workers", "1", "-q"]
    words = [sys.executable, "-c", TOLD, *line]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    workers, names = json.loads(done.stdout.splitlines()[-1])
    assert workers == [False]
    of_driver = set(names)
    of_worker = set(json.loads((tmp_path / "out" / "result.json").read_text()))
    assert "hyperslab.report.html" in of_driver
    assert "hyperslab.plan.steps" in of_worker
    assert of_driver & HEAVY == set()
    assert of_worker & (HEAVY | OF_DRIVERS) == set()
    most = MOST_OF_A_DRIVER
    if TELLING_WHY in of_driver:
        most += MOST_TO_TELL_WHY
    assert _own(of_driver) <= most
    assert _own(of_worker) <= MOST_OF_A_WORKER


def _own(modules: set[str]) -> int:
    """How many of these modules are of this package."""
    return sum(name.partition(".")[0] == "hyperslab" for name in modules)


GARBAGE = """
import gc, os, sys
from hyperslab.cli import main
from hyperslab.cli.functions import functions
found = []
told = lambda: (gc.isenabled(), os.environ.get("OPENBLAS_THREAD_TIMEOUT"))
sys.modules["hyperslab.cli.functions"].functions = lambda: found.append(told()) or 0
sys.argv = ["hyperslab", "functions"]
try:
    main()
finally:
    print(*found)
"""


LATER = """
import pickle, sys, threading
from unittest import mock
from hyperslab.cli import starting
starting.begin()
from urllib import request
import urllib.request as again
waits = "http.client" not in sys.modules
sent = pickle.dumps({"request": request})
found = []
threads = [threading.Thread(target=lambda: found.append(request.Request)) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
with mock.patch("urllib.request.urlopen") as patched:
    is_patched = request.urlopen is patched and request.getproxies is not None
is_same = request is again is sys.modules["urllib.request"] is pickle.loads(sent)["request"]
starting.end()
print(waits, is_patched, is_same, len(found), len(set(found)), type(request).__name__)
"""
"What users of a module see that nibabel imports for them, and that waits until it is used."


def test_a_module_that_waits_is_one_like_others_when_it_is_used() -> None:
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, check=True)
    assert done.stdout == "True True True 8 1 module\n", done.stderr


def test_garbage_is_collected_and_the_environment_the_callers_while_a_verb_runs() -> None:
    words = [sys.executable, "-c", GARBAGE]
    run = functools.partial(subprocess.run, words, capture_output=True, text=True, check=True)
    own = {name: value for name, value in os.environ.items() if name != starting.BLAS_TIMEOUT}
    assert run(env=own).stdout == "(True, None)\n"
    assert run(env={**own, starting.BLAS_TIMEOUT: "9"}).stdout == "(True, '9')\n"


def test_openblas_hears_of_it_while_a_verb_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(starting.BLAS_TIMEOUT, raising=False)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    starting.begin()
    heard = os.environ.get(starting.BLAS_TIMEOUT)
    waits = not gc.isenabled()
    starting.end()
    assert (heard, waits) == ("20", True)
    assert starting.BLAS_TIMEOUT not in os.environ
    assert gc.isenabled()


WATCHED = """
import contextlib, os, sys, threading
started = set()
def watch(event, told):
    if event == "subprocess.Popen":
        started.add(os.path.basename(str(told[0])))
sys.addaudithook(watch)
from hyperslab.cli import main
with contextlib.suppress(SystemExit):
    main(sys.argv[1:])
took = sum(os.times()[:4])
told = (",".join(started), threading.active_count(), took, ",".join({libraries} & set(sys.modules)))
print(*told, file=sys.stderr)
""".replace("{libraries}", repr(set(LIBRARIES)))
"""Prints which programs were started, how many threads there are, the processor time of all, and
which libraries were imported.
"""
LIBRARIES_ALONE = """
import os, sys
import numpy, nibabel, h5py
print(sum(os.times()[:4]), file=sys.stderr)
"""
ASKED = {"mpiexec", "parallel", "python", "sbatch", "uname", "strace", "hyperslab-filecalls"}
"Programs that say which version they are or what they may, and Python for what mpi4py loads."


def test_doctor_asks_programs_for_their_versions_and_starts_no_engine() -> None:
    names, threads, took, libraries = told(WATCHED, "doctor").rsplit(maxsplit=3)
    assert libraries == "numpy"
    assert set(names.split(",")) <= ASKED
    assert threads == "1"
    assert float(took) < 6 * float(told(LIBRARIES_ALONE))


def told(code: str, *arguments: str) -> str:
    """What a program says on standard error."""
    words = [sys.executable, "-c", code, *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=True).stderr


def test_doctor_looks_through_all_that_is_installed_for_odd_names_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []

    def packages() -> dict[str, list[str]]:
        looked.append("through all")
        return {"json": ["nosj"]}

    monkeypatch.setattr(metadata, "packages_distributions", packages)
    doctor._distributions.cache_clear()
    assert doctor._distribution("numpy") == "numpy"
    assert doctor._distribution("not_installed") == "not_installed"
    assert looked == []
    assert doctor._distribution("json") == "nosj"
    doctor._distributions.cache_clear()
