"""Keywords: by which call each option of a pipeline, or of its run, is taken.

Held by tests/system/end_to_end/test_python_words.py, which compares them with the signatures.
"""

from __future__ import annotations

from hyperslab.plan.settings import Settings

PIPELINE_OPTIONS = ("values", "boundary", "storage_options", "resample", "region")
"Keywords of `Pipeline` that are no further inputs."
MAP_OPTIONS = (
    "params",
    "dtype",
    "scale",
    "halo",
    "temporaries",
    "drop_axis",
    "new_axis",
    "outputs",
)
"Keywords of `Pipeline.map` that are no parameters of the function."
WRITE_OPTIONS = ("format", "keep", "encoding")
_TAKEN_BY = {
    "Pipeline(source, {}=...)": PIPELINE_OPTIONS,
    "map(function, {}=...)": MAP_OPTIONS,
    "write(dest, {}=...)": WRITE_OPTIONS,
    "run(pipeline, {0}=...) and compute({0}=...)": tuple(Settings.__annotations__),
}
"Calls, and the options that each takes."


def taken_by(name: str) -> str:
    """The call that takes an option of this name, as it is written; '' where none does."""
    for call, names in _TAKEN_BY.items():
        if name in names:
            return call.format(name)
    return ""
