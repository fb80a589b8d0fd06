"""Help as typer draws it, without what it imports for texts in Markdown and for tracebacks, neither
of which are in a help: a third of the time that a help takes. And examples, for the flags that a
verb has.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

DRAWS = "typer.rich_utils"
"Module that draws a help."
PANEL = "rich_help_panel"
"Name by which typer keeps the panel of a flag."
LEFT_OUT = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}
"Modules that it imports for a class each."
FIRST = "Most used"
"Panel that a long help begins with."
MOST_USED = (
    "--out",
    "--param",
    "--mask",
    "--engine",
    "--workers",
    "--blocks",
    "--resume",
    "--dry-run",
)
"Flags in it. It comes first where the first flag of a verb is one of them."
LONG = 40
"A help of more flags than this has it."
EXAMPLES = {
    FIRST: ("--out smoothed", "--param sigma=2", "--workers 4"),
    "Inputs": (
        "--with mask=mask.nii.gz",
        "--region 10:40,20:60,5:25",
        "--participant-label 01",
        "--session-label a",
        "--sources concatenated",
        "--axis 0",
    ),
    "Commands": ("--command 'bet {input} {out}/{name}_brain'", "--match '*_T1w.nii.gz'"),
    "The function": ("--param sigma=2", "--halo 3"),
    "Outputs": ("--out means.nii.gz", "--dtype float32", "--format zarr"),
    "Blocks": ("--blocks 5x5x5", "--memory 8GB"),
    "The engine": ("--engine dask-futures", "--workers 4", "--threads 2"),
    "Slow storage": ("--stage-in /dev/shm", "--stage-out /dev/shm"),
    "Before and after": ("--resume", "--check-locality"),
    "What is shown": ("--verbose",),
}
"Flags with a value for each panel, of which a verb shows those that it has."
LONGEST = 74
"Characters of a title: narrow terminals have 80 columns."


def prepare() -> None:
    """Import what draws a help, if nobody has."""
    if DRAWS in sys.modules:
        return
    with _left_out():
        import_module(DRAWS)


def give_examples(parameters: Sequence[Any]) -> None:
    """Have the titles of panels end with an example of the flags in them, and the few flags that
    most runs need come first in a long help.
    """
    if len(parameters) > LONG:
        for one in parameters:
            if hasattr(one, PANEL) and not set(MOST_USED).isdisjoint(one.opts):
                setattr(one, PANEL, FIRST)
    flags = defaultdict(set)
    for one in parameters:
        flags[getattr(one, PANEL, None)].update(one.opts)
    titles = {panel: _with_example(panel, own) for panel, own in flags.items() if panel in EXAMPLES}
    for one in parameters:
        panel = getattr(one, PANEL, None)
        if panel in titles:
            setattr(one, PANEL, titles[panel])


def _with_example(panel: str, flags: set[str]) -> str:
    """A title with the first two examples of flags that are there, as far as they fit."""
    known = [one for one in EXAMPLES[panel] if one.partition(" ")[0] in flags]
    title = panel
    for before, example in zip((", as in:", ""), known, strict=False):
        longer = f"{title}{before} {example}"
        if len(longer) <= LONGEST:
            title = longer
    return title


@contextmanager
def _left_out() -> Iterator[None]:
    """A block in which modules have others in their place, unless they are there already."""
    others = {name: _other(name, LEFT_OUT[name]) for name in LEFT_OUT.keys() - sys.modules.keys()}
    sys.modules.update(others)
    try:
        yield
    finally:
        for name in others:
            del sys.modules[name]


def _other(name: str, kind: str) -> ModuleType:
    """A module with a class of this name, which makes objects of the real one."""

    class Later:
        def __new__(cls, *given: Any, **more: Any) -> Any:
            return getattr(import_module(name), kind)(*given, **more)

        @classmethod
        def from_exception(cls, *given: Any, **more: Any) -> Any:
            return getattr(import_module(name), kind).from_exception(*given, **more)

    module = ModuleType(name)
    setattr(module, kind, Later)
    return module
