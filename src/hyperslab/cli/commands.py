"""What `hyperslab run --command` takes, beside what it takes of a function."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hyperslab import formats
from hyperslab.driver.options import Options
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Pipeline

OF_FUNCTIONS = (
    *("param", "other", "mask", "labels", "resample", "region", "sources", "storage_option"),
    *("axis", "block_shape", "blocks", "partition", "axes_whole", "halo", "boundary", "memory"),
    *("values", "dtype", "drop_axis", "new_axis", "outputs", "format", "keep", "chunks"),
    *("compression", "accept_changed_function", "trial", "check_locality", "granularity"),
    *("readers_per_device", "stagger"),
)
"Arguments that say something of blocks, or of the function that they are given to."


class Given(Mapping[str, Any]):
    """The arguments of a verb, and which of them differ from their defaults."""

    def __init__(self, arguments: Mapping[str, Any], signature: inspect.Signature) -> None:
        self._arguments = dict(arguments)
        self._parameters = signature.parameters

    def __getitem__(self, name: str) -> Any:
        return self._arguments[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arguments)

    def __len__(self) -> int:
        return len(self._arguments)

    def refuse(self, names: Iterable[str], why: str) -> None:
        """Raise UsageError for an argument that was given."""
        for name in names:
            if self[name] != self._parameters[name].default:
                raise UsageError(f"{_flag(name)} {why}: leave it out")


def _flag(name: str) -> str:
    if name == "other":
        return "--with"
    if name == "trial":
        return "--no-trial"
    return f"--{name.replace('_', '-')}"


def of_commands(given: Given, options: Options) -> tuple[Pipeline, Options]:
    """The pipeline of a command for every file, and the options for its engine. Raises
    UsageError.
    """
    from hyperslab.apps.commands.running import commanded, own_options
    from hyperslab.apps.commands.templates import tasks_of

    given.refuse(OF_FUNCTIONS, "is for functions over blocks, and --command is none")
    out = given["out"]
    if formats.is_file_name(out):
        raise UsageError(f"-o {out}: commands write files of their own: name a directory")
    template = given["command"]
    tasks = tasks_of(template, [given["function"], *given["source"]], given["match"])
    return commanded(tasks, options, template=template), own_options(options)
