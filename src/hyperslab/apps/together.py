"""Together: several arrays that a conversion puts into one new file, each by a name of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hyperslab import formats
from hyperslab.apps.surroundings import is_numbered
from hyperslab.apps.variables import Chosen
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.sets import SourceSet
from hyperslab.blocks.gathering import Named, several
from hyperslab.errors import UsageError
from hyperslab.formats.place import laid_out
from hyperslab.plan.task import Output


def holds_several(name: str) -> bool:
    """Whether a file of this name may hold several arrays."""
    facts = formats.facts_of_file_name(name)
    return facts is not None and facts.holds_several


def has_groups(name: str) -> bool:
    """Whether variables lie in groups in a file of this name."""
    facts = formats.facts_of_file_name(name)
    return facts is not None and facts.has_groups


def no_place(
    path: str,
    source: Named | Sequence[Named] | SourceSet,
    found: Chosen | None,
    error: UsageError,
) -> UsageError:
    """What to say where arrays that are named do not become one array in a file that holds but
    one: the error itself where one thing is named.
    """
    if found is None or isinstance(source, SourceSet):
        return error
    items = several(source)
    if len(items) == 1 and "::" in str(items[0]):
        return UsageError(no_room(path, len(found.arrays)))
    if len(items) == 1:
        return error
    return UsageError(
        f"{no_room(path, len(found.arrays))}; as blocks of one array they do not fit: {error}"
    )


def no_room(path: str, arrays: int) -> str:
    """What to do with arrays of which a file can hold but one."""
    facts = formats.facts_of_file_name(path)
    title = facts.title if facts else "such"
    return (
        f"{path}: a file of {title} holds one array, and {arrays} are named: name one, write .h5,"
        " .nc or .zarr, which hold several, or a directory for a file of each"
    )


def require_room(path: str, asked: Encoding, sources: SourceSet) -> None:
    """Raise UsageError for several arrays that cannot be in one file, or not by one name."""
    arrays = len(sources.wholes)
    if not holds_several(path):
        raise UsageError(no_room(path, arrays))
    if asked.name and arrays > 1:
        raise UsageError(
            f"--name {asked.name}: {arrays} arrays go into {path}, each by the name that it has:"
            " leave out --name, or name one of them"
        )


def named_apart(sources: SourceSet, encodings: Sequence[Encoding]) -> tuple[Encoding, ...]:
    """The same encodings, in which every array has a name: that of its file where it has none."""
    return tuple(
        replace(one, name=one.name.strip("/") or whole.name)
        for one, whole in zip(encodings, sources.wholes, strict=True)
    )


def renamed_axes(sources: SourceSet, output: Output | None) -> tuple[str, ...]:
    """What is to be said of axes whose names were taken by others in the new file, a sentence."""
    if output is None or not any(volume.sink.members for volume in output.volumes):
        return ()
    said = []
    for whole, volume in zip(sources.wholes, output.volumes, strict=True):
        old = laid_out(whole.header, whole.shape).dims
        pairs = zip(old, volume.sink.header.dims, strict=False)
        changed = [pair for pair in pairs if pair[0] != pair[1] and not is_numbered(pair[0])]
        said += [f"axis {name} of {volume.sink.array_name} is called {new}" for name, new in changed]
    if not said:
        return ()
    return (f"names that {output.volumes[0].sink.path} has for others: {'; '.join(said)}",)
