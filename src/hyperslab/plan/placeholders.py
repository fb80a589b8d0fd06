"""Placeholders in the words of a command, such as {input} and {out}."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from hyperslab.errors import UsageError, suggest

NAMES = ("input", "inputs", "name", "out", "work", "index", "slot", "attempt")
_NAME = r"[a-z][a-z_]*(?:\[\d+\])?"
_PLACEHOLDER = re.compile(rf"\{{\{{(?P<literal>{_NAME})\}}\}}|\{{(?P<name>{_NAME})\}}")
_ALL_INPUTS = "{inputs}"
_SHELLS = ("sh", "ash", "bash", "dash", "ksh", "zsh")
_RUNS_SCRIPT = re.compile("-[a-z]*c")
_NUMBERED_RESULT = re.compile(r"(?<!\{)\{out\}[^\s,;|&<>()]*?(?<!\{)\{(?P<name>index|slot)\}(?!\})")
"A name below {out} that has another number when tasks are added, or run again."
_BELOW_OUT = re.compile(r"\{out\}/(?P<name>.+)")


def filled(words: Sequence[str], values: Mapping[str, str], inputs: Sequence[str]) -> list[str]:
    """The words with values for their placeholders; a word {inputs} becomes all inputs. In the
    script of a shell values are quoted.
    """
    known = {**values, "input": next(iter(inputs), ""), "inputs": " ".join(inputs)}
    known |= {f"input[{number}]": path for number, path in enumerate(inputs)}
    quoted = {name: shlex.quote(value) for name, value in known.items()}
    quoted["inputs"] = shlex.join(inputs)
    script = script_place(words)
    made: list[str] = []
    for number, word in enumerate(words):
        if word == _ALL_INPUTS:
            made += inputs
        elif number == script:
            made.append(_filled(word, quoted))
        else:
            made.append(_filled(word, known))
    return made


def literal(text: str) -> str:
    """A text in which nothing stands for anything else, as `filled` reads it."""
    return _PLACEHOLDER.sub(lambda found: f"{{{found[0]}}}", text)


def script_place(words: Sequence[str]) -> int | None:
    """The place of the word that is a script, as in: sh -c SCRIPT."""
    if not words or os.path.basename(words[0]) not in _SHELLS:
        return None
    options = (number for number, word in enumerate(words) if _RUNS_SCRIPT.fullmatch(word))
    place = next(options, None)
    if place is None:
        return None
    return place + 1


def _filled(word: str, values: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found["literal"]:
            return f"{{{found['literal']}}}"
        return values.get(found["name"], found[0])

    return _PLACEHOLDER.sub(value, word)


def _names(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        yield from (found["name"] for found in _PLACEHOLDER.finditer(word) if found["name"])


def uses(words: Sequence[str], name: str) -> bool:
    """Whether a placeholder occurs."""
    return name in _names(words)


def require_known(words: Sequence[str], inputs: int, label: str) -> None:
    """Raise UsageError for a placeholder that stands for nothing; `inputs` is how many files a task
    has.
    """
    known = [*NAMES, *(f"input[{number}]" for number in range(inputs))]
    for name in _names(words):
        if name.startswith("input[") and name not in known:
            raise UsageError(f"--command: {{{name}}}: {label} has {inputs} inputs, counted from 0")
        if name not in known:
            listed = ", ".join(f"{{{one}}}" for one in NAMES)
            raise UsageError(
                f"--command: there is no placeholder {{{name}}}{suggest(name, known)}: use"
                f" {listed}, or write {{{{{name}}}}} for {{{name}}} itself"
            )
        if name == "input" and not inputs:
            raise UsageError(f"--command: {{input}}: {label} has no inputs")


def require_lasting_names(flag: str, words: Sequence[str], instead: str) -> None:
    """Raise UsageError for results whose names have the number of a task or a slot, which is
    another one when tasks are added, or run again; `instead` is what stands for a task for good.
    """
    for found in filter(None, map(_NUMBERED_RESULT.search, words)):
        raise UsageError(
            f"{flag}: {found[0]} is the name of a result, and {{{found['name']}}} is another number"
            f" when a run is resumed, or has more tasks: let {instead} stand in the name"
        )


def files_below_out(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Names of files that the words of a command name in {out}: those with a suffix, as others may
    be folders, which tasks may share.
    """
    found = (_BELOW_OUT.fullmatch(word) for word in words)
    names = [_filled(match["name"], values) for match in found if match]
    return [name for name in names if "." in name.rpartition("/")[2].lstrip(".")]
