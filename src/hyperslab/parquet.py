"""Parquet files of records that say in their metadata, as JSON, of which version they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

KEY = b"hyperslab"
"Name of that JSON in the metadata."


def load_versioned(path: Path, what: str, newest: int) -> tuple[Any, dict[str, Any]]:
    """The table of a file, and what its metadata say. Raises ValueError for one of a newer version;
    `what` is versioned, in a word.
    """
    import pyarrow.parquet as pq

    with path.open("rb") as file:  # Arrow takes no path that is not UTF-8
        # By this thread alone: a process that ends while Arrow's threads do may abort.
        table = pq.ParquetFile(file, pre_buffer=False).read(use_threads=False)
    about: dict[str, Any] = json.loads(table.schema.metadata[KEY])
    if about["version"] > newest:
        raise ValueError(
            f"{path} was written by a newer hyperslab ({what} version {about['version']})"
        )
    return table, about
