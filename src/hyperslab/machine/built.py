"""Built: programs of this project that are no Python, and lie beside it where they were built."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from hyperslab.errors import UsageError


@dataclass(frozen=True, slots=True)
class Built:
    """A program, and how one comes by it."""

    name: str
    variable: str
    "Variable that may name the program."
    target: str
    "What make is told to build it, which leaves it in .venv/bin of the folder of the sources."
    purpose: str
    "What needs it, as the beginning of a sentence."

    def find(self) -> str:
        """Path of the program. Raises UsageError, with how to get it."""
        named = os.environ.get(self.variable)
        if named is not None:
            if os.access(named, os.X_OK):
                return named
            raise UsageError(f"{self.variable} names {named}, which cannot be run")
        own = Path(sys.executable).parent / self.name
        if os.access(own, os.X_OK):
            return str(own)
        found = shutil.which(self.name)
        if found is None:
            raise UsageError(
                f"{self.purpose} needs the program {self.name}, which is not here, as wheels do not"
                f" have it: run 'make {self.target}' in a clone of hyperslab's repository (Rust"
                f" 1.88 or newer), and name what it makes, .venv/bin/{self.name}, in"
                f" {self.variable}"
            )
        return found
