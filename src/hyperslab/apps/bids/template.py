"""Templates: commands as users write them, with placeholders for what differs between participants.

- in the script of a shell values are quoted, whatever characters they have: there, a variable of
  the environment stands for each (`tests/apps/bids/test_app.py`)
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from hyperslab.apps.bids.app import OUT, App, Command, place_of, refusing
from hyperslab.apps.bids.unit import Unit, require_distinct
from hyperslab.errors import UsageError, suggest
from hyperslab.machine.words import words_of
from hyperslab.plan.placeholders import filled, require_lasting_names, script_place

GROUP_APP = "--group-app"
IMAGE, PREFIX = "t1w", "prefix"
OF_UNIT = ("participant", "session", "site", "bids_dir")
OF_COMMAND = ("out", "work", "index", "slot")
PLACEHOLDERS = (IMAGE, PREFIX, *OF_UNIT, *OF_COMMAND)
RESULTS = "results"
OF_GROUP = (RESULTS, "bids_dir", "out", "work")
_OF_PATHS = ("bids_dir", "site", RESULTS)
_NAME = "[a-z][a-z0-9_]*"
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_PLACEHOLDER = re.compile(rf"\{{\{{{_NAME}\}}\}}|\{{({_NAME})\}}")


def template_app(template: str) -> App:
    """A command as users write it: for every image where it names {t1w}, else for every unit.

    Raises UsageError for a command that cannot be read, and for placeholders that are unknown.
    """
    words = _split("--app", template, "bet {t1w} {out}/{prefix}_brain.nii.gz")
    return words_app(words, {"Name": os.path.basename(words[0]), "Description": template})


def words_app(
    words: Sequence[str],
    about: Mapping[str, str],
    files: tuple[str, ...] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
    outputs: Sequence[str] = (),
) -> App:
    """A command by its words, with variables that it finds, and files or folders below {out} that
    it makes for certain; `about` names and describes it. Raises UsageError.
    """
    _require_program("--app", words[0])
    named = _named("--app", (*words, *environment.values()), PLACEHOLDERS)
    require_lasting_names("--app", (*words, *environment.values(), *outputs), "{prefix}")

    def of_place(unit: Unit, root: str, place: int | None) -> Command:
        values = _values(unit, root, place)
        argv = _substituted(words, values)
        if environment:
            variables = [f"{name}={value}" for name, value in environment.items()]
            argv = ("env", *_substituted(variables, values), *argv)
        folder = values["out"].removeprefix(f"{OUT}/")
        made = [_below(folder, name) for name in _substituted(outputs, values)]
        for name in made:
            if not f"{name}/".startswith(f"{folder}/"):
                return Command(refusing(f"{name} is not in {folder}, which {{out}} is"), folder)
        return Command(argv, folder, expected=tuple(filled(made, {}, ())))

    def commands(unit: Unit, root: str) -> list[Command]:
        if IMAGE not in named:
            return [of_place(unit, root, None)]
        if PREFIX in named:
            require_distinct(unit)
        return [of_place(unit, root, place) for place in range(len(unit.images))]

    return App(about["Name"], commands, about["Description"], (about,), IMAGE in named, files)


def group_words(template: str, root: str, results: str) -> tuple[str, ...]:
    """The command of a group level as users write it, with the placeholders of commands; `results`
    is the folder of what participants have left. Raises UsageError as `template_app`.
    """
    words = _split(GROUP_APP, template, "python average.py {results} {out}/average.tsv")
    _require_program(GROUP_APP, words[0])
    _named(GROUP_APP, words, OF_GROUP)
    return _substituted(words, {RESULTS: results, "bids_dir": root})


def _below(folder: str, name: str) -> str:
    """The path of what a template names below {out}, whichever of its placeholders are empty."""
    return os.path.normpath(os.path.join(folder, name.lstrip("/")))


def _split(flag: str, template: str, example: str) -> list[str]:
    """The words of a command. Raises UsageError."""
    words = words_of(template, f"{flag} ")
    if not words:
        raise UsageError(f"{flag}: give a command, such as '{example}'")
    return words


def _named(flag: str, words: Sequence[str], known: Sequence[str]) -> set[str]:
    """The placeholders of a command. Raises UsageError for one that stands for nothing."""
    named = {found[1] for word in words for found in _PLACEHOLDER.finditer(word) if found[1]}
    for name in sorted(named - {*known}):
        listed = ", ".join(f"{{{one}}}" for one in known)
        raise UsageError(
            f"{flag}: {{{name}}} is unknown{suggest(name, known)}; known are {listed}, and"
            f" {{{{{name}}}}} stands for {{{name}}} itself"
        )
    return named


def _require_program(flag: str, name: str) -> None:
    if _VARIABLE.match(name):
        raise UsageError(
            f"{flag}: {name} sets a variable, which is for a shell: write 'env {name} ...'"
        )
    if shutil.which(name) is None and not _PLACEHOLDER.search(name):
        raise UsageError(f"{flag}: {name} is not on PATH: install it, or give its path")


def _values(unit: Unit, root: str, place: int | None) -> dict[str, str]:
    """What stands for the placeholders of a template for a unit, or for one of its images."""
    folder = unit.folder
    prefix = unit.stem
    if place is not None:
        image = unit.images[place]
        folder = os.path.dirname(place_of(image, root))
        prefix = os.path.basename(image.path).removesuffix(
            f"_{image.name.suffix}{image.name.extension}"
        )
    return {
        IMAGE: f"{{input[{place}]}}",
        PREFIX: prefix,
        "participant": unit.participant.label,
        "session": unit.session,
        "site": unit.participant.site,
        "bids_dir": os.path.join(root, unit.participant.site).rstrip("/"),
        "out": f"{OUT}/{folder}",
    }


def _substituted(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """The words with values for placeholders; the script of a shell gets them by variables."""
    variables: dict[str, str] = {}

    def variable(found: re.Match[str]) -> str:
        if not found[1]:
            return found[0]
        name = variables.setdefault(_value(found, values), f"BIDS_VALUE_{len(variables)}")
        return f'"${{{name}}}"'

    script = script_place(words)
    made = []
    for number, word in enumerate(words):
        if number == script:
            made.append(_PLACEHOLDER.sub(variable, word))
        else:
            made.append(_PLACEHOLDER.sub(lambda found: _value(found, values), word))
    if not variables:
        return tuple(made)
    return ("env", *(f"{name}={value}" for value, name in variables.items()), *made)


def quoted(words: Sequence[str]) -> str:
    """Words for the line of a shell. Placeholders stay outside of quotes, since a shell gets their
    values by variables, which are in quotes of their own.
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    parts = []
    end = 0
    for found in _PLACEHOLDER.finditer(word):
        if found[1]:
            parts += [_plain(word[end : found.start()]), found[0]]
            end = found.end()
    return "".join([*parts, _plain(word[end:])]) or shlex.quote("")


def _plain(text: str) -> str:
    if not text:
        return ""
    return shlex.quote(text)


def _value(found: re.Match[str], values: Mapping[str, str]) -> str:
    """What stands for a placeholder; those of commands stay for where the command runs."""
    value = values.get(found[1] or "", found[0])
    if found[1] in _OF_PATHS:  # which may look like placeholders
        return _PLACEHOLDER.sub(lambda inner: f"{{{inner[0]}}}", value)
    return value
