"""Small datasets for the tests, by the names of their files."""

from __future__ import annotations

from pathlib import Path


def make(folder: Path, *names: str, content: bytes = b"not looked at") -> Path:
    """Write files of these names, with the folders above them."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def t1w(label: str, session: str = "", more: str = "") -> str:
    """The usual name of a T1-weighted image."""
    where = f"sub-{label}/ses-{session}" if session else f"sub-{label}"
    stem = f"sub-{label}_ses-{session}" if session else f"sub-{label}"
    return f"{where}/anat/{stem}{more}_T1w.nii.gz"
