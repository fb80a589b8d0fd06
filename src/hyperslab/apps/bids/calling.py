"""Python functions as apps: each is called for a participant in a process of its own.

The function takes the paths of the images and the folder for what it writes, both as pathlib has
them: `def measure(images, out)`. What it returns is not looked at.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from hyperslab.apps.bids.app import OUT, App, Command
from hyperslab.apps.bids.unit import Unit
from hyperslab.plan.function import refer

_FUNCTION = re.compile(r"[\w./~-]+:[A-Za-z_]\w*")


def is_function(text: str) -> bool:
    """Whether an app is named as file.py:function or module:function."""
    return _FUNCTION.fullmatch(text) is not None


def function_app(target: str) -> App:
    """A function of Python, by its name. Raises UsageError for one that cannot be found."""
    reference = refer(target)

    def commands(unit: Unit, root: str) -> list[Command]:
        images = (f"{{input[{place}]}}" for place in range(len(unit.images)))
        call = ("-m", "hyperslab.apps.bids.calling", reference.target)
        argv = (sys.executable, *call, f"{OUT}/{unit.folder}", *images)
        return [Command(argv, unit.folder)]

    about = {"Name": reference.name, "Description": f"Function of Python, {target}"}
    files = tuple(path for path, _ in reference.files)
    return App(reference.name, commands, reference.target, (about,), files=files)


def main(arguments: Sequence[str]) -> None:
    """Call a function: its name, the folder that it writes to, and the images."""
    target, out, *images = arguments
    sys.path.insert(0, os.getcwd())
    refer(target).load()([Path(image) for image in images], Path(out))


if __name__ == "__main__":
    main(sys.argv[1:])
