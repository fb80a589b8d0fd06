"""Prove a wheel: `python -m tests.wheels dist/hyperslab-*.whl`.

It has to hold what `tests.wheels.contents` says, and auditwheel has to find in it nothing that a
system of manylinux2014 (glibc 2.17) lacks. Then it is installed into an empty environment of every
Python that it is for and that is here, without Rust in reach, and has to read and convert an image
there. Ends with 1 where something fails, or where no Python is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.wheels.contents import TAG, faults_of_wheel

PYTHONS = ("3.11", "3.12", "3.13")
IMAGE = Path(__file__).parents[1] / "data" / "mri" / "anatomical.nii"
_BARE = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
_PLATFORM = "manylinux_2_17_x86_64"
_TRIED = """
import numpy, nibabel, hyperslab
found = hyperslab.open("again.nii", values="stored")[...]
assert numpy.array_equal(found, nibabel.load(IMAGE).dataobj.get_unscaled())
assert hyperslab._native.__file__.endswith(".abi3.so")
print("reads, converts and computes on Python", __import__("platform").python_version())
"""


def main(wheel: Path) -> int:
    """Prove it; the exit status."""
    if not _is_sound(wheel):
        return 1
    status = 0
    tried = 0
    for version in PYTHONS:
        python = next(_interpreters(version), None)
        if python is None:
            print(f"Python {version}: not on this machine (looked in PATH and in pyenv)")
            continue
        tried += 1
        status |= _try(wheel, version, python)
    return status or int(tried == 0)


def _is_sound(wheel: Path) -> bool:
    shown = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", wheel],
        capture_output=True,
        text=True,
        check=False,
    )
    is_sound = shown.returncode == 0 and _PLATFORM in shown.stdout
    said = f"consistent with {_PLATFORM}"
    if not is_sound:
        said = f"not a wheel for {_PLATFORM}:\n{shown.stdout}{shown.stderr}"
    print(f"auditwheel: {wheel.name} is {said}")
    faults = list(faults_of_wheel(wheel))
    print("\n".join(faults) or f"contents: whole, {TAG}, of the stable ABI alone")
    return is_sound and not faults


def _interpreters(version: str) -> Iterator[str]:
    """Interpreters of this version."""
    found = shutil.which(f"python{version}")
    if found and _answers(found, version):
        yield found
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for python in sorted(root.glob(f"versions/{version}.*/bin/python")):
        if _answers(str(python), version):
            yield str(python)


def _answers(python: str, version: str) -> bool:
    """Whether it is that version: what pyenv puts into PATH may be for another one."""
    asked = subprocess.run([python, "--version"], capture_output=True, text=True, check=False)
    return asked.returncode == 0 and asked.stdout.startswith(f"Python {version}.")


def _try(wheel: Path, version: str, python: str) -> int:
    """Install and use it in an environment of its own; 0 where it works."""
    with tempfile.TemporaryDirectory() as folder:
        own = {**_BARE, "HOME": folder}
        bare = Path(folder, "bare", "bin")
        said = {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}
        commands: list[tuple[list[str], dict[str, str]]] = [
            ([python, "-m", "venv", str(bare.parent)], own),
            ([str(bare / "pip"), "install", "--quiet", str(wheel.resolve())], {**own, **said}),
            ([str(bare / "hyperslab"), "convert", str(IMAGE), "there.h5", "--quiet"], own),
            ([str(bare / "hyperslab"), "convert", "there.h5", "again.nii", "--quiet"], own),
            ([str(bare / "python"), "-c", f"IMAGE = {str(IMAGE)!r}\n{_TRIED}"], own),
        ]
        said_last = ""
        for command, environment in commands:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                print(f"Python {version}: {' '.join(command[:3])} failed:\n{done.stderr}")
                return 1
            said_last = done.stdout.strip()
    print(f"Python {version}: {said_last}, installed without Rust ({python})")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
