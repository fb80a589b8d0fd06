"""Mutant: a line that is broken, and the test that notices."""

from __future__ import annotations

from typing import NamedTuple

CARGO = "cargo: "
"Before the name of a test of the Rust core."


class Mutant(NamedTuple):
    """One broken line."""

    what: str
    "What is wrong then, in a few words."
    file: str
    "From the root of the repository."
    old: str
    "What is there, once in the file."
    new: str
    test: str
    "The fastest that notices: an id of pytest, or `cargo: NAME`."
