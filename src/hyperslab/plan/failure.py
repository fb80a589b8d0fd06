"""Failure: why a task failed, in words, and where in the user's own code.

A failure travels in the journal, so its texts are bounded, and its traceback begins at the user's
function unless hyperslab's own frames were asked for.
"""

from __future__ import annotations

import dis
import inspect
import itertools
import linecache
import os
import re
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, TracebackType
from typing import Any

from hyperslab.errors import BlockError, HyperslabError, Unavailable
from hyperslab.plan.function import LAMBDA, FunctionRef, is_library, original_of
from hyperslab.redaction import redact
from hyperslab.units import show_list

PACKAGE = Path(__file__).parents[1]
"Folder of hyperslab's own files."
MOST_MESSAGE = 2_000
"Characters of a message that are kept."
MOST_TRACEBACK = 8_000
"Characters of a traceback that are kept."
MOST_LINE = 200
"Characters of a line of code that are kept."
CERTAIN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BlockError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
    SystemExit,
    TypeError,
    ValueError,
)
"""Exceptions that lie in the code of a function: another attempt meets them again.

What depends on the machine and on others is none of them: OSError and its kinds (files, networks,
time limits), MemoryError, errors of programs that a function starts, RuntimeError, which libraries
raise for full devices.
"""
REPEATED = (AttributeError, LookupError, NameError, TypeError)
"""Exceptions of Python and NumPy that a function meets again on the same block, and so has no
second attempt.
"""
_OF_SHAPES = "broadcast|cannot reshape|not aligned|mismatch in its core dimension"
"What a ValueError says of arrays whose shapes do not go together, which is such an exception, too."
DIED = "WorkerDied"
"Error of a task whose process ended, in the place of an exception's name."


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of code that a function was at."""

    file: str
    line: int
    function: str
    text: str
    "The line itself; '' where this host has no source of it."

    @property
    def place(self) -> str:
        """File and line, as editors and terminals link them."""
        return place_of(self.file, self.line)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task failed, in words, and where."""

    error: str
    "Name of the exception, or of what ended the worker."
    message: str
    where: str
    permanent: bool = False
    "True when another attempt cannot succeed."
    traceback: str = ""
    frame: Frame | None = None
    "Last line of the user's own code that was reached; None where the failure is not from there."
    certain: bool = False
    "True for an error of the user's function that other blocks are likely to meet as well."


def describe_failure(
    error: BaseException,
    where: str,
    refs: Sequence[FunctionRef] = (),
    entries: Sequence[CodeType] = (),
    whole: bool = False,
) -> Failure:
    """An exception as data, with the sentence that a user reads. Never raises.

    `entries` are the functions of hyperslab that call the user's code, which `refs` refer to;
    `whole` keeps hyperslab's frames in the traceback, of which those of built-ins are some.
    """
    files = {name for ref in refs if not ref.is_built_in for name, _ in ref.files}
    entered = _entered(error.__traceback__, entries)
    begin = error.__traceback__
    frame = None
    if entered is not None:
        reached = _beyond_ours(entered.tb_next, files)
        frame = _own_frame(reached, files)
        if not whole:
            begin = reached
    is_entered = entered is not None
    frame = frame or getattr(error, "frame", None)
    told = _formatted(error, begin)
    if isinstance(error, BlockError) and not is_entered and not whole:
        told = _formatted_at(error, frame)
    return Failure(
        type(error).__name__,
        bounded(_sentence(error), MOST_MESSAGE),
        where,
        _is_permanent(error, is_entered),
        bounded(told, MOST_TRACEBACK),
        frame,
        _is_certain(error, is_entered),
    )


def place_of(file: str, line: int) -> str:
    """file.py:12, from the current directory on where the file lies below it; '' for none."""
    if not file:
        return ""
    shown = file
    if Path.cwd() in Path(file).parents:
        shown = os.path.relpath(file)
    return f"{shown}:{line}"


def own_frame(error: BaseException) -> Frame | None:
    """The last line of the user's own code behind an error, or the one that is no Python; None
    where it has gone through none.
    """
    for cause in _causes(error):
        if isinstance(cause, SyntaxError) and _is_file_of_user(cause.filename or ""):
            return _frame_of_syntax(cause)
        steps = list(_steps(cause.__traceback__))
        own = [step for step in steps if _is_file_of_user(step.tb_frame.f_code.co_filename)]
        if own:
            return _frame(own[-1].tb_frame.f_code, own[-1].tb_lineno)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that led to it; one may name itself as its cause."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        yield cause
        seen.append(cause)
        cause = cause.__cause__


def _is_file_of_user(name: str) -> bool:
    is_file = bool(name) and not name.startswith("<")
    return is_file and _is_own(name, set())


def _frame_of_syntax(error: SyntaxError) -> Frame:
    """The line that Python could not read, which is in no function yet."""
    file = original_of(str(error.filename))
    text = (error.text or "").strip()
    return Frame(file, error.lineno or 1, "", bounded(text, MOST_LINE))


def locate(error: BlockError, function: Any, returned: Any, block: Any) -> None:
    """Let an error of what a function has returned for a block say where the function returns.

    Its frame becomes the one line that can have returned this, or else the definition of the
    function.
    """
    inner = inspect.unwrap(getattr(function, "func", function))
    if not isinstance(inner, FunctionType):
        return
    code = inner.__code__
    error.frame = _frame(code, code.co_firstlineno)
    lines = _lines_of_returns(code)
    possible = lines
    if inner is function and returned is not block:
        possible = lines - _lines_of_block(code)
    is_end = returned is None and len(lines) != 1  # where a function returns nothing
    if len(possible) == 1 and not is_end:
        error.frame = _frame(code, *possible)
        return
    more = "it has no 'return' with a value"
    if lines:
        more = f"it returns in lines {show_list(list(map(str, sorted(lines))))}"
    if len(lines) != 1 and code.co_name != LAMBDA:
        error.retell(f"{error.sentence} ({more})", error.resuming)


def _lines_of_returns(code: CodeType) -> set[int]:
    """The lines where a function returns a value, by its bytecode, which workers have also of the
    cells of a notebook.
    """
    return {line for line, _, _ in _returns(code)}


def _lines_of_block(code: CodeType) -> set[int]:
    """The lines where a function can return nothing but the object that it was given first."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname.startswith("STORE")}
    if not code.co_argcount or code.co_varnames[0] in names:
        return set()
    others = set()
    for line, before, step in _returns(code, ("SWAP", "POP_TOP")):
        is_loaded = before.opname.startswith("LOAD_FAST") and before.argval == code.co_varnames[0]
        if step.is_jump_target or not is_loaded:
            others.add(line)
    return _lines_of_returns(code) - others


def _returns(
    code: CodeType, tidying: Sequence[str] = ()
) -> Iterator[tuple[int, dis.Instruction, dis.Instruction]]:
    """Every step of bytecode that returns a value, with its line and the step before it, but for
    those that are `tidying`, as steps out of a loop are.
    """
    steps = [step for step in dis.get_instructions(code) if step.opname not in tidying]
    for before, step in itertools.pairwise(steps):
        line = step.positions.lineno if step.positions else None
        if line and step.opname in ("RETURN_VALUE", "RETURN_CONST") and _has_value(before, step):
            yield line, before, step


def _has_value(before: dis.Instruction, step: dis.Instruction) -> bool:
    """Whether a step of bytecode returns something else than the None of a function's end."""
    if step.opname == "RETURN_CONST":
        return step.argval is not None
    is_none = before.opname == "LOAD_CONST" and before.argval is None
    return not is_none or step.is_jump_target


def _is_permanent(error: BaseException, is_entered: bool) -> bool:
    """Whether another attempt at the same block would fail as well."""
    if isinstance(error, HyperslabError):
        return not isinstance(error, Unavailable)
    place = type(error).__module__.partition(".")[0]
    if not is_entered or place not in ("builtins", "numpy"):
        return False
    return isinstance(error, REPEATED) or is_of_shapes(error)


def is_of_shapes(error: BaseException) -> bool:
    """Whether an error says that arrays do not go together by their axes."""
    if isinstance(error, IndexError):
        return True
    if isinstance(error, BlockError):
        return " shape " in _message(error)
    return isinstance(error, ValueError) and re.search(_OF_SHAPES, _message(error)) is not None


def _is_certain(error: BaseException, is_entered: bool) -> bool:
    if isinstance(error, OSError):
        return False
    return isinstance(error, BlockError) or (is_entered and isinstance(error, CERTAIN))


def _entered(begin: TracebackType | None, entries: Sequence[CodeType]) -> TracebackType | None:
    """The frame that called the user's code; None where the error is from elsewhere."""
    for step in _steps(begin):
        if step.tb_frame.f_code in entries:
            return step
    return None


def _steps(begin: TracebackType | None) -> Iterator[TracebackType]:
    step = begin
    while step is not None:
        yield step
        step = step.tb_next


def _beyond_ours(begin: TracebackType | None, files: set[str]) -> TracebackType | None:
    """The first frame that is not hyperslab's own; None where Python reached no other."""
    for step in _steps(begin):
        name = step.tb_frame.f_code.co_filename
        if PACKAGE not in Path(name).parents or original_of(name) in files:
            return step
    return None


def _own_frame(begin: TracebackType | None, files: set[str]) -> Frame | None:
    """The last frame in a file of the user's, or else the first; None where there is none."""
    steps = list(_steps(begin))
    if not steps:
        return None
    own = [step for step in steps if _is_own(step.tb_frame.f_code.co_filename, files)]
    last = (own or steps[:1])[-1]
    return _frame(last.tb_frame.f_code, last.tb_lineno)


def _is_own(name: str, files: set[str]) -> bool:
    if original_of(name) in files:
        return True
    is_internal = name.startswith(("<frozen", "<__array_function__"))
    return not is_internal and not is_library(Path(name))


def _frame(code: CodeType, line: int | None) -> Frame:
    number = line or code.co_firstlineno
    text = linecache.getline(code.co_filename, number).strip()
    return Frame(original_of(code.co_filename), number, code.co_name, bounded(text, MOST_LINE))


def _formatted(error: BaseException, begin: TracebackType | None) -> str:
    """The traceback as Python shows it, from a frame on; with the errors that led to it."""
    told = traceback.TracebackException(type(error), error, begin, compact=True)
    return "".join(told.format())


def _formatted_at(error: BaseException, frame: Frame | None) -> str:
    """A traceback of the one line where the function has returned what is wrong; '' for none."""
    if frame is None:
        return ""
    place = traceback.FrameSummary(frame.file, frame.line, frame.function, line=frame.text)
    told = [*traceback.format_list([place]), *traceback.format_exception_only(error)]
    return "".join(["Traceback (most recent call last):\n", *told])


def bounded(text: str, most: int) -> str:
    """A text without secrets, and without its middle where it is long: its end says the most.

    It is cut between words, so that no half of a secret is left, which would not be recognised; and
    before secrets are looked for, which takes long in long words.
    """
    if len(text) <= most:
        return redact(text)
    quarter = most // 4
    head = re.sub(r"\S+$", "", text[:quarter])
    tail = re.sub(r"^\S+", "", text[quarter - most :])
    left_out = len(text) - len(head) - len(tail)
    return redact(f"{head}[... {left_out:,} characters left out ...]{tail}")


def _sentence(error: BaseException) -> str:
    said = _message(error)
    if isinstance(error, SystemExit):
        return (
            f"the function called sys.exit({error.code!r}); let it return a block or raise an"
            " exception"
        )
    if isinstance(error, MemoryError):
        if not said:
            return "out of memory"
        return f"out of memory ({said}); use smaller blocks or fewer workers"
    if isinstance(error, OSError) and error.strerror:
        if not error.filename:
            return error.strerror
        return f"{error.strerror}: {error.filename}"
    if isinstance(error, HyperslabError):
        # who ends the run says whether it can be resumed
        return error.sentence or said
    name = type(error).__name__
    if not said:
        return name
    return f"{name}: {said}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    # a user's exception class that cannot even say what it is
    except Exception as another:  # noqa: BLE001
        return f"its message cannot be shown ({type(another).__name__})"
