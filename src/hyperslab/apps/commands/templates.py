"""Templates: a command with placeholders, and the files that one task each is made of."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from hyperslab import formats
from hyperslab.arrays.naming import unique_names
from hyperslab.blocks.gathering import natural
from hyperslab.errors import UsageError
from hyperslab.machine.words import words_of
from hyperslab.plan.command import CommandTask
from hyperslab.plan.placeholders import require_known, require_lasting_names, uses

_OF_EACH = ("input", "inputs", "name", "index")
"Placeholders of which a template has one at least, as all its commands would be the same."


def tasks_of(template: str, sources: Sequence[str], match: str = "") -> list[CommandTask]:
    """A task for every file that `sources` name: files, patterns, and directories of which `match`
    says which files below them. Raises UsageError.

    A template is split into words as a shell does; no shell runs it unless it begins with one, as
    in "sh -c 'gunzip < {input} > {out}/{name}'".
    """
    words = tuple(words_of(template, "--command "))
    if not words:
        raise UsageError("--command: it is empty: give a program and its arguments")
    require_known(words, 1, "a task")
    require_lasting_names("--command", words, "{name}")
    if not any(uses(words, name) for name in _OF_EACH):
        raise UsageError(
            "--command: every task would do the same: let {input} stand for the file, {name} for"
            " its name without suffix"
        )
    files = list(dict.fromkeys(_files(sources, match)))
    names = unique_names([_parts(file) for file in files])
    return [CommandTask(name, words, (file,)) for name, file in zip(names, files, strict=True)]


def _files(sources: Sequence[str], match: str) -> Iterator[str]:
    for source in sources:
        if os.path.isdir(source):
            yield from _below(source, match)
        elif os.path.exists(source):
            yield os.path.abspath(source)
        else:
            yield from _matching(source)


def _below(folder: str, match: str) -> Iterator[str]:
    """The files below a folder that a pattern matches, in natural order."""
    if not match:
        raise UsageError(
            f"{folder} is a directory: say by --match which files below it, such as"
            " --match '*_T1w.nii.gz'"
        )
    if os.path.isabs(match):
        raise UsageError(f"--match {match}: give a pattern for names below {folder}")
    found = (str(path.absolute()) for path in Path(folder).rglob(match) if path.is_file())
    files = sorted(found, key=natural)
    if not files:
        raise UsageError(f"--match {match}: no file below {folder} matches it")
    yield from files


def _matching(pattern: str) -> Iterator[str]:
    if "://" in pattern:
        raise UsageError(f"{pattern}: commands read files, and this is a URL: copy it first")
    files = sorted(filter(os.path.isfile, glob.glob(pattern, recursive=True)), key=natural)
    if not files:
        what = "there is no such file"
        if glob.has_magic(pattern):
            what = "no file matches this pattern"
        raise UsageError(f"{pattern}: {what}")
    yield from map(os.path.abspath, files)


def _parts(file: str) -> tuple[str, ...]:
    """Folders of a file, and its name without suffix: the longest that is known, or else what
    follows the last dot.
    """
    *folders, name = Path(file).parts
    stem = formats.stem_of(name)
    if stem == name:
        stem = Path(name).stem
    return (*folders, stem)
