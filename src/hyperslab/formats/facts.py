"""Facts of a format: what is to be known of one beside its code, said once and asked everywhere.

Nothing outside of `hyperslab.formats` knows a format by its name or by the ends of its files'
names (`tests/formats/test_format_names.py`): it asks here instead, and so does what is said here
for a format of another package.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

HEAD_NBYTES = 544
"Bytes of a file, or of what it holds compressed, in which the magic of every format lies."

_TYPES: dict[str, type] = {"str": str, "bytes": bytes, "int": int, "bool": bool, "tuple": tuple}
"Types of the fields of the records below, by the words in which they are annotated."


def _require_types(record: Any) -> None:
    """Raise TypeError for a field whose value is of another type than it is annotated with."""
    for field in fields(record):
        value = getattr(record, field.name)
        word = str(field.type).partition("[")[0]
        if not isinstance(value, _TYPES[word]):
            owner = type(record).__name__
            raise TypeError(f"{owner}.{field.name} is {value!r}, not of type {field.type}")


def _require_each(name: str, values: tuple[Any, ...], kind: type) -> None:
    """Raise TypeError for a field that holds something of another type."""
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"Facts.{name} holds {value!r}, not of type {kind.__name__}")


@dataclass(frozen=True, slots=True)
class Suffix:
    """An end of the names of files of a format."""

    text: str
    "The end itself, with its dot and in small letters: '.nii.gz'."
    word: str = ""
    "Word of --format for new files of this end; '' where such files are only read."
    title: str = ""
    "Name of what such files are, for people; '' where it is the format's own."
    is_compressed: bool = False
    "New files of this end are compressed, whatever is asked for."
    is_written_in_place: bool = False
    "A block goes into the file from where it lies in memory, without a second one of its size."

    def __post_init__(self) -> None:
        _require_types(self)
        if not self.text.startswith(".") or self.text != self.text.lower():
            raise ValueError(f"Suffix.text is {self.text!r}: begin with a dot, in small letters")


@dataclass(frozen=True, slots=True)
class Magic:
    """Bytes by which a file is recognised."""

    text: bytes
    offset: int = 0
    "Position of these bytes in the file, all of them within the first HEAD_NBYTES."
    doubling: int = 0
    "Another position, as is each of its doubles up to the end of the file; 0 for none."
    refusal: str = ""
    "Reason why such files are not read, and what to do about it; '' where they are read."
    beside: tuple[str, ...] = ()
    """Suffixes of such a file that is not read, and of the one beside it with its values, which no
    bytes tell and which is not read for the same reason; empty for none.
    """

    def __post_init__(self) -> None:
        _require_types(self)
        if not self.text:
            raise ValueError("Magic.text is empty: every file would be of this format")
        if not 0 <= self.offset <= HEAD_NBYTES - len(self.text):
            raise ValueError(f"Magic.offset is {self.offset}: only {HEAD_NBYTES} bytes are read")
        if self.doubling < 0:
            raise ValueError(f"Magic.doubling is {self.doubling}: give 0 or more")
        if len(self.beside) not in (0, 2):
            raise ValueError(f"Magic.beside is {self.beside}: give the suffixes of two files")


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that a format says of itself.

    Raises TypeError or ValueError for a field that nothing could be done with.
    """

    name: str
    "Name of the format, as `ArraySource.format` has it."
    module: str
    "Module that is the format (`hyperslab.formats.Format`), imported at first use."
    title: str
    "Name of the format for people."
    supported: str
    "Kinds of its files that are read, as messages list them."
    suffixes: tuple[Suffix, ...] = ()
    "Ends of the names of its files, the usual one first; () where another format has them all."
    magic: tuple[Magic, ...] = ()
    "Bytes by which its files are recognised, any of them."
    documents: tuple[str, ...] = ()
    "Names of files of which every directory of this format holds one; () where it has files."
    has_remote_stores: bool = False
    "Such directories are read from a URL, too: its module is given a `RemoteFolder`."
    is_one_array: bool = False
    "A file is one array, which has no name."
    is_stream: bool = False
    "A compressed file is a gzip stream from its first byte on, and the magic is in what it holds."
    has_named_axes: bool = True
    "The format gives names to axes; else they are numbered here, and not compared."
    has_own_header: bool = False
    """Whether its attributes are fields of a header such as no other format has: 'zooms', 'units',
    'version' and 'byte_order' among them.
    """
    has_chunks: bool = False
    "A new file holds its array under a name and in chunks; both are taken over from the source."
    has_deflate: bool = False
    "A new file takes over that its source is compressed, and how strongly."
    has_parts: bool = False
    "A file may stand for those of its writers, which lie in a folder beside it."
    holds_several: bool = False
    "A new file may hold several arrays (`hyperslab.formats.hooks.Unites`)."
    has_groups: bool = False
    "Variables lie in groups, one within the other."
    groups: str = ""
    """Module whose `read_groups` lists the variables of a file (`hyperslab.formats.groups`); '':
    the one array of a file is its one variable.
    """
    says_of_groups: bool = False
    "Attributes of groups are told by its module (`hyperslab.formats.hooks.TellsOfGroups`)."
    xarray_engine: str = ""
    "Engine by which xarray opens such files itself; '' where they are opened by this package's."
    libraries: tuple[tuple[str, str], ...] = ()
    "Names of libraries that its module imports, each with what pip has to install."

    def __post_init__(self) -> None:
        _require_types(self)
        if not self.name or not self.module:
            raise ValueError("Facts.name or Facts.module is empty")
        _require_each("suffixes", self.suffixes, Suffix)
        _require_each("magic", self.magic, Magic)
        _require_each("documents", self.documents, str)
        _require_each("libraries", self.libraries, tuple)
        for pair in self.libraries:
            if len(pair) != 2:
                raise ValueError(f"Facts.libraries holds {pair!r}: give (module, requirement)")
            _require_each("libraries", pair, str)
