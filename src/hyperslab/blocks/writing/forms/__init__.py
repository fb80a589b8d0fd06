"""Forms of writing: what a sink is written as, and all that differs by that."""

from __future__ import annotations

import functools
from importlib import import_module

from hyperslab.arrays.sink import ArraySink
from hyperslab.blocks.writing.forms.form import Form, Written, stored_nbytes

__all__ = ["FORMS", "Form", "Written", "form_of", "stored_nbytes"]

FORMS = {"placed": "Placed", "pieces": "Pieces", "parts": "Parts", "store": "Store"}
"""Classes of all forms, by the names that sinks have of them, which are those of their modules,
too. Each is imported when it is first asked for.
"""


def form_of(sink: ArraySink) -> Form:
    """The form in which a sink is written."""
    return _form(sink.form)


@functools.cache
def _form(name: str) -> Form:
    form: Form = getattr(import_module(f"{__name__}.{name}"), FORMS[name])()
    return form
