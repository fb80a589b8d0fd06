"""What a reader of a page types, in the order in which it stands there: files, Python, commands.

A block that begins with the name of a file, as in `# clip.py`, is that file; every other one of
Python runs in one interpreter. A fenced block without a language is commands; one of `console` has
them behind `$ `, between what they print. So is a cell of a table that is one command of hyperslab.
Blocks in other languages are looked at, not typed. What cannot be tried from an empty directory has
the reason above it, as `<!-- untried: a cluster of yours -->`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.system.end_to_end.command import ROOT, Finished, call, light

_SNIPPETS = re.compile(
    r"^(?:<!-- untried: (?P<untried>.+) -->\n)?```(?P<language>\w*)\n(?P<text>[\s\S]*?)^```$"
    r"|^\|.*\| `(?P<cell>hyperslab [^`]+)` \|$",
    re.MULTILINE,
)
_FILE = re.compile(r"# (\w+\.(?:py|toml))\n")
_SHELL = re.compile(r"[&|;<>*$]")
"What only a shell understands, unless it is quoted or behind a #."
_LITERAL = re.compile(r"""'[^']*'|"[^"$]*"|(?<=\s)#.*""")
_BIN = Path(sys.executable).parent
_PATIENCE_S = 200.0


class Snippet(NamedTuple):
    """A block of a page."""

    place: str
    "As docs/tutorial.md:17."
    language: str
    text: str
    untried: str
    "Why it cannot be tried; '' where it can."

    @property
    def commands(self) -> list[str]:
        """The lines that are typed into a shell."""
        if self.language == "console":
            typed = re.findall(r"^\$ (.*)$", self.text, re.MULTILINE)
        elif self.language == "":
            typed = self.text.splitlines()
        else:
            typed = []
        return [line for line in typed if line]


def snippets(page: str) -> list[Snippet]:
    """All blocks of a page, and the commands in its tables, from top to bottom."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [_snippet(page, text, found) for found in _SNIPPETS.finditer(text)]


def _snippet(page: str, text: str, found: re.Match[str]) -> Snippet:
    place = f"{page}:{text.count(chr(10), 0, found.start()) + 1}"
    if found["cell"]:
        return Snippet(place, "", found["cell"] + "\n", "")
    return Snippet(place, found["language"], found["text"], found["untried"] or "")


class Desk:
    """Somebody who types a page into a shell and an interpreter that both work in a folder."""

    def __init__(
        self, folder: Path, other_words: dict[str, str], statuses: Mapping[str, int]
    ) -> None:
        self.folder = folder
        self.other_words = other_words
        "What is typed instead of some words, as a smaller size."
        self.statuses = statuses
        "Exit statuses of the commands that have these words; of others 0."
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed: dict[str, str] = {}
        "What each command, and each block of Python by its place, has printed."
        self._background: list[subprocess.Popen[bytes]] = []

    def type(self, snippet: Snippet) -> None:
        """Type a block, and look whether everything in it works."""
        if snippet.untried:
            return
        if named := _FILE.match(snippet.text):
            (self.folder / named[1]).write_text(self._instead(snippet.text), encoding="utf-8")
        elif snippet.language == "python":
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile(self._instead(snippet.text), snippet.place, "exec"), self.names)
            self.printed[snippet.place] = said.getvalue()
        for line in snippet.commands:
            self._run(self._instead(line), f"{snippet.place}: {line}")

    def leave(self) -> None:
        """End what was started in the background."""
        for process in self._background:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _instead(self, text: str) -> str:
        for word, other in self.other_words.items():
            text = text.replace(word, other)
        return text

    def _run(self, line: str, said: str) -> None:
        if line.endswith(" &"):
            self._start(line)
            return
        words = shlex.split(line, comments=True)
        is_plain = not _SHELL.search(_LITERAL.sub("", line))
        if is_plain and words[0] == "hyperslab":
            done = call(*words[1:], *light(words[1:]))
        elif is_plain and words[0] == "python" and len(words) == 2:
            done = self._python(words[1])
        else:
            done = self._shell(line)
        self.printed[line] = done.out
        wanted = next((code for part, code in self.statuses.items() if part in line), 0)
        assert done.code == wanted, f"{said}\n{done.out}\n{done.err}"

    def _python(self, script: str) -> Finished:
        """Run a script in this process, which saves the start of an interpreter."""
        said = io.StringIO()
        with redirect_stdout(said):
            runpy.run_path(str(self.folder / script), run_name="__main__")
        return Finished(0, said.getvalue(), "")

    def _shell(self, line: str) -> Finished:
        ran = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=_with_programs(),
            capture_output=True,
            text=True,
            check=False,
        )
        return Finished(ran.returncode, ran.stdout, ran.stderr)

    def _start(self, line: str) -> None:
        """Start a program in the background, and wait until it has said that others can use it."""
        log = self.folder / f"background-{len(self._background)}.log"
        with log.open("wb") as said:
            self._background.append(
                subprocess.Popen(
                    ["bash", "-c", f"exec {line.removesuffix(' &')}"],
                    cwd=self.folder,
                    env=_with_programs(),
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                )
            )
        limit = time.monotonic() + _PATIENCE_S
        while "Registered to" not in log.read_text() and "Scheduler at" not in log.read_text():
            assert time.monotonic() < limit, f"{line}\n{log.read_text()}"
            time.sleep(0.05)


def _with_programs() -> dict[str, str]:
    """The environment of a shell that finds what is installed beside this Python."""
    return {**os.environ, "PATH": f"{_BIN}:{os.environ['PATH']}"}
