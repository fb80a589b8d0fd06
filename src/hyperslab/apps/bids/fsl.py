"""FSL's brain extraction, where that is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from hyperslab import formats
from hyperslab.apps.bids.surface import Bools
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading
from hyperslab.errors import FormatError

PROGRAM = "bet"


def brain_mask(path: str, fraction: float) -> Bools:
    """Voxels of a head that FSL takes for brain. Raises FormatError where it fails."""
    with tempfile.TemporaryDirectory(prefix="hyperslab-bet-") as folder:
        # FSL's scripts take no blanks in names: this link has none, and is named from where it is,
        # as the folder may have some.
        ending = ".nii.gz" if path.endswith(".gz") else ".nii"
        head = Path(folder) / f"head{ending}"
        head.symlink_to(os.path.abspath(path))
        done = subprocess.run(
            [PROGRAM, head.name, "brain", "-m", "-f", f"{fraction:g}"],
            cwd=folder,
            env={**os.environ, "FSLOUTPUTTYPE": "NIFTI_GZ"},
            capture_output=True,
            text=True,
            check=False,
        )
        mask = Path(folder) / "brain_mask.nii.gz"
        if done.returncode or not mask.exists():
            said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["nothing"]
            raise FormatError(
                f"{path}: {PROGRAM} ended with exit status {done.returncode} and said: {said[0]}"
            )
        source = formats.open_source(str(mask))
        return np.asarray(reading.read(source, Hyperslab.full(source.shape)) > 0)


def described() -> str:
    """Name and version of FSL's program."""
    folder = os.environ.get("FSLDIR", "")
    version = Path(folder) / "etc" / "fslversion"
    if folder and version.is_file():
        return f"bet of FSL {version.read_text().split(':')[0].strip()}"
    return f"bet ({shutil.which(PROGRAM)})"
