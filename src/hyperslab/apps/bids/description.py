"""dataset_description.json: what a dataset is, and what it was made of and by."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.apps.bids.wanted import read_json
from hyperslab.errors import FormatError

FILE, IGNORE = "dataset_description.json", ".bidsignore"
"Files of a dataset as a whole, which BIDS Apps write at both levels, as hyperslab does."
NAME = "hyperslab"
BIDS_VERSION = "1.11.0"
"Version of BIDS that derivatives keep to."
RAW = "raw"
"Name of the source dataset in BIDS URIs, as in bids:raw:sub-01/anat/sub-01_T1w.nii.gz."
NOT_OF_BIDS = "group_*\nfigures\n"
"""Files of the group level and pictures, which BIDS has no names for, as .bidsignore lists them.
The validator takes a folder that it does not know for a file: a slash behind its name would not
match.
"""


def read_description(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What a dataset says of itself; nothing where the file is missing. Raises FormatError."""
    path = os.path.join(folder, FILE)
    if not os.path.lexists(path):
        return {}
    said = read_json(path)
    if not isinstance(said, dict):
        raise FormatError(f"{path}: has to be an object of JSON, {{...}}; write it anew")
    return said


def derivative(
    source: str, said: Mapping[str, Any], title: str, generated_by: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The description of a dataset made of the one in the folder `source`, which says this of
    itself, by hyperslab and what that ran (BIDS 1.11, "Derived dataset and pipeline description").
    """
    from hyperslab import __version__

    own = {"Name": NAME, "Version": __version__, "Description": "Runs over participants"}
    uri = Path(source).absolute().as_uri()
    origin = {"URL": uri}
    if isinstance(said.get("DatasetDOI"), str):
        origin["DOI"] = said["DatasetDOI"]
    name = said.get("Name") or Path(source).name
    return {
        "Name": f"{title} of {name}",
        "BIDSVersion": BIDS_VERSION,
        "DatasetType": "derivative",
        "GeneratedBy": [own, *map(dict, generated_by)],
        "SourceDatasets": [origin],
        "DatasetLinks": {RAW: uri},
    }


def names_of(site: str) -> tuple[str, ...]:
    """Names of the files of a dataset as a whole, in a collection of sites or ''."""
    return tuple(os.path.join(site, name) for name in (FILE, IGNORE))
