"""participants.tsv: what a dataset says of its participants, and the site of each."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Mapping

from hyperslab.apps.bids.dataset import SUBJECT, Dataset
from hyperslab.errors import FormatError

FILE = "participants.tsv"
PARTICIPANT = "participant_id"
SITES = ("site", "site_id", "site_name", "center", "centre")
"Names of the column that says where a participant was scanned, in lower case."
UNKNOWN = ("", "n/a")
"Words of BIDS for a value that is not known."
_NAMED = 3


def site_of_participants(dataset: Dataset) -> dict[str, str]:
    """Sites by the labels of participants: what the table says, else the dataset's own site."""
    said = {}
    for row in rows(dataset.folder):
        label = row[PARTICIPANT].removeprefix(SUBJECT)
        said[label] = _site(row)
    return {one.label: said.get(one.label, "") or dataset.site for one in dataset.participants}


def rows(folder: str) -> list[dict[str, str]]:
    """Rows of the table, by the names of the columns; none where there is no table.

    Raises FormatError for a table that cannot be read or names a participant twice.
    """
    path = os.path.join(folder, FILE)
    if not os.path.exists(path):
        return []
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            columns = reader.fieldnames or ()
            found = [{name: row[name] or "" for name in columns} for row in reader]
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: is not UTF-8 ({error}); save it as UTF-8") from error
    except csv.Error as error:
        raise FormatError(f"{path}: is no table ({error}); write one row a line") from error
    if PARTICIPANT not in columns:
        raise FormatError(
            f"{path}: has no column {PARTICIPANT}; its first line has to name the columns, with a"
            " tab between two"
        )
    _require_unique(path, found)
    return found


def _site(row: Mapping[str, str]) -> str:
    by_name = {name.lower(): text.strip() for name, text in row.items()}
    for name in SITES:
        if by_name.get(name, "").lower() not in UNKNOWN:
            return by_name[name]
    return ""


def _require_unique(path: str, found: list[dict[str, str]]) -> None:
    times = Counter(row[PARTICIPANT].removeprefix(SUBJECT) for row in found)
    twice = [SUBJECT + label for label, number in times.items() if number > 1]
    if twice:
        more = f" and {len(twice) - _NAMED} more" if len(twice) > _NAMED else ""
        raise FormatError(
            f"{path}: has more than one row of {', '.join(twice[:_NAMED])}{more}; leave one of each"
        )
