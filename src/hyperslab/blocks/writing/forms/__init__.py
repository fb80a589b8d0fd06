"""Forms of writing: what a sink is written as, and all that differs by that."""

from __future__ import annotations

from hyperslab.arrays.sink import ArraySink
from hyperslab.blocks.writing.forms.form import Form, Written, stored_nbytes
from hyperslab.blocks.writing.forms.parts import Parts
from hyperslab.blocks.writing.forms.pieces import Pieces
from hyperslab.blocks.writing.forms.placed import Placed
from hyperslab.blocks.writing.forms.store import Store

__all__ = ["FORMS", "Form", "Written", "form_of", "stored_nbytes"]

_OF_FILES: tuple[Form, ...] = (Placed(), Pieces(), Store())
_BY_NAME = {form.name: form for form in _OF_FILES}
FORMS: dict[str, Form] = {**_BY_NAME, "parts": Parts(_BY_NAME)}
"All forms, by the names that sinks have of them."


def form_of(sink: ArraySink) -> Form:
    """The form in which a sink is written."""
    return FORMS[sink.form]
