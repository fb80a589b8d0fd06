"""Place of the description: the file that keeps what the probes of a machine have found."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "HYPERSLAB_MACHINE"


def default_path() -> Path:
    """Where the description lies when nobody says otherwise."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    folder = Path.home() / ".local" / "share"
    if data and Path(data).is_absolute():  # as the XDG specification asks for
        folder = Path(data)
    return folder / "hyperslab" / "machine.json"
