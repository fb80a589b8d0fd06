"""The exceptions of hyperslab: each message says what is wrong, where, and what to do next.

Messages are written in the words of the command line, `--memory 5XB`. What Python calls turns them
into its own, `memory='5XB'`, unless it was the command line that called.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

CONTINUES = "--resume continues the run"
AGAIN = "run again with --resume"
"Advice of errors after which a run can be resumed."

_speaks_flags = ContextVar("speaks_flags", default=False)
_QUOTED = r"'hyperslab [^']*'"
"Commands, which Python has no other words for."
_FLAG = r"(?<![\w-])--(?P<flag>[a-z][a-z-]*[a-z])(?: (?P<value>(?:[^\s:;()]|:(?=\S))*[^\s:;(),.]))?"
_WORDS = (
    rf"{_QUOTED}|(?P<function>\bFUNCTION\b)|(?P<out>(?<![\w-])-o (?=\S))"
    rf"|(?P<again>the same command)|{_FLAG}"
)
_SWITCHES = {
    "accept-changed-function": "accept_changed_function=True",
    "fail-fast": "fail_fast=True",
    "keep-going": "fail_fast=False",
    "no-report": "report=False",
    "no-trial": "trial=False",
    "overwrite": "overwrite=True",
    "resume": "resume=True",
}
_NOUNS = {"param": "parameter", "with": "input", "storage-option": "storage_options"}
_CHOICES = frozenset(
    {"real", "stored", "blocks", "volume", "mosaic", "concatenated", "nearest", "linear"}
    | {"auto", "chunks", "slabs"}
)
"Values that are plain words; others have a digit, or are NAME=VALUE."
_NAMING = frozenset({"engine", "connect"})
"Flags that a word follows only where it is their value: the name of an engine, or an address."


@contextmanager
def speaking_flags() -> Iterator[None]:
    """A block on behalf of the command line, whose errors name its flags."""
    token = _speaks_flags.set(True)
    try:
        yield
    finally:
        _speaks_flags.reset(token)


def speaks_flags() -> bool:
    """Whether it was the command line that called."""
    return _speaks_flags.get()


def in_callers_words(text: str) -> str:
    """A message as whoever called reads it: with flags of the command line, or words of Python."""
    if _speaks_flags.get():
        return text
    return re.sub(_WORDS, _python_words, text)


def told_in_python(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, whose errors name arguments of Python where Python has called it."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except HyperslabError as error:
            if error.sentence:
                error.retell(in_callers_words(error.sentence), in_callers_words(error.resuming))
            raise

    return call


def suggest(given: str, known: Iterable[str], prefix: str = "") -> str:
    """Words that name what was perhaps meant, for a message; '' where nothing is like it. All known
    ones are told with the prefix, which they are compared without.
    """
    import difflib  # needed for mistakes only

    close = difflib.get_close_matches(given, list(known), n=1)
    if close:
        return f" (did you mean '{prefix}{close[0]}'?)"
    return ""


def _python_words(found: re.Match[str]) -> str:
    if found["function"]:
        return "function"
    if found["out"]:
        return "out "
    if found["again"]:
        return "the same call"
    flag, value = found["flag"], found["value"]
    if flag is None:
        return found[0]
    rest = ""
    if value:
        rest = f" {value}"
    if flag in _SWITCHES:
        return _SWITCHES[flag] + rest
    name = _NOUNS.get(flag, flag.replace("-", "_"))
    if flag in _NOUNS or not _is_value(flag, value):
        return name + rest
    if re.fullmatch(r"-?[\d.]+", value):
        return f"{name}={value}"
    if re.fullmatch(r"-?\d+(,-?\d+)+", value):
        return f"{name}=({value.replace(',', ', ')})"
    return f"{name}={value!r}"


def _is_value(flag: str, word: str | None) -> bool:
    """Whether what follows a flag is its value, and no further word of the sentence."""
    if not word:
        return False
    return flag in _NAMING or word in _CHOICES or re.search(r"\d|=\w", word) is not None


def _joined(sentence: str, resuming: str) -> str:
    return "; ".join(filter(None, (sentence, resuming)))


class LocalityWarning(UserWarning):
    """Warning that what a function makes depends on where blocks are cut, as a trial has shown."""


_EXTRA = re.compile(r"pip install 'hyperslab\[(\w+)\]'")


class HyperslabError(Exception):
    """Any failure that hyperslab foresaw; its text is a sentence for the user."""

    sentence = ""
    "What is wrong, and what to do."
    resuming = ""
    "What to do besides where the run can be resumed, which ends the text; '' for no such advice."
    is_of_code = False
    "Whether the user's own code has raised what is behind it, so that its line is told."

    def __init__(self, sentence: str = "", resuming: str = "") -> None:
        super().__init__(_joined(sentence, resuming))
        self.sentence = sentence
        self.resuming = resuming
        if extra := _EXTRA.search(sentence):
            self.add_note(f"    until there is a release, in a clone: pip install '.[{extra[1]}]'")

    def retell(self, sentence: str, resuming: str) -> None:
        """Say the same in other words."""
        self.sentence = sentence
        self.resuming = resuming
        self.args = (_joined(sentence, resuming), *self.args[1:])


E = TypeVar("E", bound=HyperslabError)


def of_code(error: E) -> E:
    """An error behind which is what the user's own code has raised."""
    error.is_of_code = True
    return error


class UsageError(HyperslabError):
    """An argument that cannot be used; the command line exits with 2."""


class RefusedInput(UsageError):
    """A further input that a function does not take."""

    name = ""
    "Name of the input."
    why = ""
    "What is wrong with it, in words that follow the flag."


def refused_input(name: str, why: str) -> RefusedInput:
    """The error for a further input; whoever knows how it was typed can say that instead of
    --with.
    """
    error = RefusedInput(f"--with {name}{why}")
    error.name = name
    error.why = why
    return error


class FormatError(HyperslabError):
    """A file that is corrupt, truncated, or not what its name says."""


class Missing(FormatError, UsageError, FileNotFoundError):
    """A file that is not there; FileNotFoundError for callers that know nothing of hyperslab."""


class MissingGroup(UsageError, OSError):
    """A group that is not in a file; OSError, as xarray's other engines raise."""


class SourceChanged(HyperslabError):
    """A file that was written to after the plan had been made from it."""


class SourceGone(SourceChanged):
    """A file that was there when the plan was made from it, and is not any more, or not seen."""


class Unavailable(HyperslabError):
    """A remote store that gave no answer, or none but excuses, however often it was asked; it may
    give one later.
    """


class BlockError(HyperslabError):
    """A function returned a block of the wrong shape or dtype, or none."""

    frame: Any = None
    "Where the function is defined, a hyperslab.plan.failure.Frame, once it is known."


class NoArray(BlockError):
    """A function returned something for a block that is no array."""


class DoesNotFit(UsageError):
    """A plan that needs more memory or disk than there is; the text holds the number and the
    remedy.
    """


class OutputBusy(UsageError):
    """An output directory that another run owns, or that holds another run's results."""


class AlreadyDone(OutputBusy):
    """A conversion to a URL that is to be resumed, although everything has been uploaded."""


class DamagedRecord(UsageError):
    """A record of a run that is not as it was written; the text says what is not known without it,
    and what to do.
    """


class MissingExtra(UsageError):
    """An optional dependency that is not installed; the text holds the command that installs it."""


class RunStopped(HyperslabError):
    """A run that had to end early: its output directory vanished, its disk is full, or it was
    cancelled.
    """


class TasksFailed(HyperslabError):
    """A run some of whose tasks failed; the others are done, and their outputs are there."""

    def __init__(
        self,
        sentence: str,
        result: Any,
        failures: Sequence[Any],
        traceback: str,
        resuming: str = "",
    ) -> None:
        """`result` is what the run left behind, a hyperslab.Result; `failures` its failed tasks;
        `traceback` that of the function at the first of them.
        """
        super().__init__(sentence, resuming)
        self.result = result
        self.failures = failures
        self.traceback = traceback
        if traceback:
            self.add_note(f"\nThe first of them:\n{traceback}")

    def __reduce__(self) -> tuple[type[TasksFailed], tuple[str, Any, Sequence[Any], str]]:
        return TasksFailed, (str(self), self.result, self.failures, self.traceback)
