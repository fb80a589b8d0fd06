"""CommandTests: what commands have to keep on every engine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hyperslab.apps.commands.running import run_commands
from hyperslab.driver import verification
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.logs import logged
from hyperslab.driver.result import Result
from hyperslab.plan.command import CommandTask

COMMANDS = 6
BROKEN = 3
"Number of the command that fails until it is mended."
SCRIPT = """
test "$1" != 3 || test -e "$0/mended" || { echo "no $1" >&2; echo half > "$2/half"; exit 3; }
cp "$3" "$4/copy" && mkdir "$2/upper" && tr a-z A-Z < "$4/copy" > "$2/upper/$1.txt"
echo "did $1"
"""
"Script whose words are a folder, then {index}, {out}, {input} and {work}."


class CommandTests:
    """Conformance of commands on an engine, which a subclass says by `_place`."""

    def _place(self) -> dict[str, Any]:
        raise NotImplementedError

    def _run_commands(self, folder: Path, **options: Any) -> Result:
        settings = {**self._place(), "report": False, "check": False, **options}
        return run_commands(_tasks(folder), folder / "out", **settings)

    def test_commands_make_their_files_fail_alone_and_are_resumed(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        result = self._run_commands(tmp_path, retries=1)
        good = {f"upper/{n}.txt" for n in range(COMMANDS)} - {f"upper/{BROKEN}.txt"}
        assert _files(out) == good
        (failure,) = result.failures
        assert failure.task == f"task-{BROKEN}"
        assert failure.message == f"exit status 3: no {BROKEN}"
        assert failure.attempts == 2
        assert {one.label for one in logged(RunDirectory(out)) if not one.failure} == {
            f"task-{n}" for n in range(COMMANDS) if n != BROKEN
        }
        (tmp_path / "mended").touch()
        result = self._run_commands(tmp_path, resume=True)
        assert result.ok, result.failures
        for n in range(COMMANDS):
            assert (out / "upper" / f"{n}.txt").read_text() == f"INPUT {n}\n"
        attempts = [one.label for one in logged(RunDirectory(out))]
        assert len(attempts) == COMMANDS + 2, attempts
        self._require_records(out, result)

    def _require_records(self, out: Path, result: Result) -> None:
        assert all(one.problem is None for one in verification.verify(RunDirectory(out)))
        assert _files(out) == {f"upper/{n}.txt" for n in range(COMMANDS)}
        for one in logged(RunDirectory(out)):
            number = one.label.removeprefix("task-")
            said = f"no {number}\n" if one.failure else f"did {number}\n"
            assert one.printed().decode() == said
            assert one.ran.real_s >= one.ran.waited_s >= 0
            assert one.ran.max_rss > 0
        assert {span.kind for span in result.trace.spans} == {"compute", "write"}

    def test_a_command_that_is_late_ends_with_all_that_it_has_started(self, tmp_path: Path) -> None:
        seconds = f"6{os.getpid()}"
        script = f"sleep {seconds} & sleep {seconds}; echo never > $0/file.txt"
        late = CommandTask("late", ("sh", "-c", script, "{out}"))
        soon = CommandTask("soon", ("sh", "-c", "echo $0 > {out}/soon.txt", "{name}"))
        settings = {**self._place(), "report": False, "check": False, "task_timeout": 4}
        result = run_commands([late, soon], tmp_path / "out", **settings, retries=0)
        (failure,) = result.failures
        # Between them may stand that the kernel has killed something on this machine meanwhile.
        assert failure.message.startswith("it took longer than 4 s, and ")
        assert failure.message.endswith(", and it printed nothing")
        assert _files(tmp_path / "out") == {"soon.txt"}
        assert (tmp_path / "out" / "soon.txt").read_text() == "soon\n"
        assert _running(seconds) == []


def _tasks(folder: Path) -> list[CommandTask]:
    """Commands that read a file each, of which one is broken until the folder says otherwise."""
    tasks = []
    for number in range(COMMANDS):
        path = folder / f"in {number}.txt"
        if not path.exists():
            path.write_text(f"input {number}\n")
        words = ("sh", "-c", SCRIPT, str(folder), "{index}", "{out}", "{input}", "{work}")
        tasks.append(CommandTask(f"task-{number}", words, (str(path),)))
    return tasks


def _files(out: Path) -> set[str]:
    """What others see in an output directory."""
    found = (path.relative_to(out) for path in out.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if path.parts[0] != ".hyperslab"}


def _running(word: str) -> Sequence[str]:
    """Processes that have a word in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if word.encode() in words:
            found.append(path.parent.name)
    return found
