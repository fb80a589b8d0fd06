"""Facts of a format: what is to be known of one beside its code, said once and asked everywhere.

Nothing outside of `hyperslab.formats` knows a format by its name or by the ends of its files'
names (`tests/formats/test_format_names.py`): it asks here instead, and so does what is said here
for a format of another package.
"""

from __future__ import annotations

from dataclasses import dataclass


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


@dataclass(frozen=True, slots=True)
class Magic:
    """Bytes by which a file is recognised."""

    text: bytes
    offset: int = 0
    "Position of these bytes in the file, within the first 544."
    doubling: int = 0
    "Another position, as is each of its doubles up to the end of the file; 0 for none."
    refusal: str = ""
    "Reason why such files are not read, and what to do about it; '' where they are read."


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that a format says of itself."""

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
    is_one_array: bool = False
    "A file is one array, which has no name."
    is_stream: bool = False
    "A compressed file is a gzip stream from its first byte on, and the magic is in what it holds."
    has_named_axes: bool = True
    "The format gives names to axes; else they are numbered here, and not compared."
    has_own_header: bool = False
    """Its attributes are fields of a header such as no other format has: 'zooms', 'units',
    'version' and 'byte_order' among them.
    """
    has_chunks: bool = False
    "A new file holds its array under a name and in chunks; both are taken over from the source."
    has_deflate: bool = False
    "A new file takes over that its source is compressed, and how strongly."
    has_parts: bool = False
    "A file may stand for those of its writers, which lie in a folder beside it."
    has_groups: bool = False
    "Variables lie in groups, one within the other."
    groups: str = ""
    """Module whose `read_groups` lists the variables of a file (`hyperslab.formats.groups`); '':
    the one array of a file is its one variable.
    """
    xarray_engine: str = ""
    "Engine by which xarray opens such files itself; '' where they are opened by this package's."
    libraries: tuple[tuple[str, str], ...] = ()
    "Names of libraries that its module imports, each with what pip is told to install."
