"""Break one line at a time and see that a test notices: `make mutants`.

Source and tests are copied into a temporary folder, so that nothing here is touched, whatever ends
the command. Of a mutant in Rust the core's own tests are built, in `rust/target/mutants`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests import examples
from tests.mutants.mutant import CARGO, Mutant
from tests.mutants.table import MUTANTS

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "src", "tests", "docs", "examples", "rust")
FILES = ("pyproject.toml", "mkdocs.yml", "README.md", "CONTRIBUTING.md", "Makefile")
PATIENCE_S = 600.0
PYTEST = (
    *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
    "--hypothesis-profile=mutants",  # of tests/conftest.py
)
TESTS_FAILED = 1
"Exit code of pytest when tests ran and some failed; others say that none could run."
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)|^test (\S+) \.\.\. FAILED", re.MULTILINE)
LINES_SHOWN = 15
"Of what a test says that was to fail and did not, or the other way round."


class Verdict(NamedTuple):
    """What came of some tests."""

    failed: bool
    "Whether they ran, and one of them failed."
    passed: bool
    "Whether they ran, and none of them failed; of two that are false, they could not run."
    said: str


def main() -> int:
    arguments = _arguments()
    wanted = re.compile(arguments.only)
    chosen = [mutant for mutant in MUTANTS if wanted.search(f"{mutant.file} {mutant.what}")]
    if not chosen:
        print(f"No mutant's file or description has {arguments.only!r} in it.")
        return 2
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        house = House(Path(folder))
        unsound = house.unsound(mutant.test for mutant in chosen)
        if unsound:
            print(unsound, "Before anything is broken, these tests fail or do not run.", sep="\n")
            return 1
        survivors = [mutant for mutant in chosen if not is_noticed(house, mutant)]
    minutes = (time.monotonic() - began) / 60
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants noticed, {minutes:.1f} min")
    return int(len(survivors) > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    words = "mutants in whose file or description this regular expression is found"
    parser.add_argument("--only", default="", help=words)
    return parser.parse_args()


def is_noticed(house: House, mutant: Mutant) -> bool:
    """Whether the test of a mutant fails while its line is broken; says so."""
    path = house.folder / mutant.file
    sound = path.read_text()
    path.write_text(broken(sound, mutant))
    began = time.monotonic()
    try:
        verdict = house.play([mutant.test])
    finally:
        path.write_text(sound)
    seconds = time.monotonic() - began
    print(f"{_word(verdict):<9} {mutant.what} ({mutant.file})")
    print(f"          {_first_failed(verdict.said) or mutant.test}, {seconds:.0f} s", flush=True)
    if not verdict.failed:
        print(_end_of(verdict.said))
    return verdict.failed


def broken(sound: str, mutant: Mutant) -> str:
    """The text of a file with the mutant's line in it. Raises ValueError when the sound line is
    not there once.
    """
    count = sound.count(mutant.old)
    if count != 1:
        raise ValueError(f"{mutant.file} holds {count} times, not once: {mutant.old}")
    return sound.replace(mutant.old, mutant.new)


class House:
    """A copy of what the tests need, the compiled core included."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        leave_out = shutil.ignore_patterns("__pycache__", "target")
        for name in FOLDERS:
            # Copies are new files: of an old one Cargo would think that it has been built.
            shutil.copytree(ROOT / name, folder / name, ignore=leave_out, copy_function=shutil.copy)
        for name in FILES:
            shutil.copy(ROOT / name, folder / name)

    def unsound(self, tests: Iterable[str]) -> str:
        """What is said by those tests that do not pass; nothing if all do."""
        names = sorted(set(tests))
        of_rust = [name for name in names if name.startswith(CARGO)]
        of_python = [name for name in names if not name.startswith(CARGO)]
        verdicts = [self.play([name]) for name in of_rust]
        if of_python:
            verdicts.append(self.play(of_python))
        return "\n".join(_end_of(verdict.said) for verdict in verdicts if not verdict.passed)

    def play(self, tests: Sequence[str]) -> Verdict:
        """Run tests of Python, or one of Rust."""
        if tests[0].startswith(CARGO):
            return self._of_cargo(tests[0].removeprefix(CARGO))
        code, said = self._run([*PYTEST, f"--basetemp={self.folder / 'tmp'}", *tests])
        return Verdict(code == TESTS_FAILED, code == 0 and " passed" in said, said)

    def _of_cargo(self, name: str) -> Verdict:
        command = ["cargo", "test", "--locked", "--package", "hyperslab-core"]
        code, said = self._run([*command, "--no-run"])
        if code != 0:
            return Verdict(False, False, said)
        code, said = self._run([*command, name])
        return Verdict(code != 0, code == 0 and "1 passed" in said, said)

    def _run(self, command: Sequence[str]) -> tuple[int, str]:
        """Exit code and words of a command; one that does not end has the code 124."""
        folder = self.folder
        if command[0] == "cargo":
            folder = folder / "rust"
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=self._environment(),
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 124, f"not over after {PATIENCE_S:.0f} s"
        return done.returncode, done.stdout + done.stderr

    def _environment(self) -> Mapping[str, str]:
        own = {
            "PYTHONPATH": str(self.folder / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            examples.VARIABLE: examples.ALL,
            "CARGO_TARGET_DIR": str(ROOT / "rust" / "target" / "mutants"),
        }
        return {**os.environ, **own}


def _word(verdict: Verdict) -> str:
    if verdict.failed:
        return "noticed"
    if verdict.passed:
        return "SURVIVED"
    return "NOT RUN"


def _first_failed(said: str) -> str:
    found = FAILED.search(said)
    if found is None:
        return ""
    return found[1] or found[2]


def _end_of(said: str) -> str:
    return "\n".join(said.splitlines()[-LINES_SHOWN:])


if __name__ == "__main__":
    sys.exit(main())
