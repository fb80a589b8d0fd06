"""A file system whose metadata is slow: slowfs.c, compiled and mounted for a test."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.system.faults.command import await_that
from tests.system.verdicts.groups import unavailable

SOURCE = Path(__file__).with_name("slowfs.c")
NEEDED = ("gcc", "pkg-config", "fusermount3")


@contextmanager
def slow_files(folder: Path, delay_us: int, renames_plainly: bool = False) -> Iterator[Path]:
    """Mount the directory `folder/back` where every operation on metadata takes `delay_us` longer;
    yields the mount.

    One that `renames_plainly` refuses what renameat2 is asked for beyond rename.
    """
    program, mount, counts = _compiled(folder), folder / "slow", folder / "counts"
    (folder / "back").mkdir(exist_ok=True)
    mount.mkdir()
    environment = {
        **os.environ,
        "SLOW_US": str(delay_us),
        "SLOW_CACHE": "1",
        "SLOW_STATS": str(counts),
    }
    environment |= {"SLOW_PLAIN": "1"} if renames_plainly else {}
    server = subprocess.Popen([program, folder / "back", mount, "-f"], env=environment)
    try:
        await_that(
            "the mount of a slow file system", lambda: mount.is_mount() or server.poll() is not None
        )
        if server.returncode is not None:
            unavailable(
                "FUSE cannot mount here; run the tests as root or open /dev/fuse to users",
                is_expected=False,
            )
        yield mount
    finally:
        server.terminate()  # it unmounts
        server.wait()
    assert "open " in counts.read_text(), "the file system kept no count"


def _compiled(folder: Path) -> Path:
    missing = [tool for tool in NEEDED if shutil.which(tool) is None]
    if not missing and subprocess.run(["pkg-config", "--exists", "fuse3"], check=False).returncode:
        missing = ["libfuse3-dev"]
    if missing or not Path("/dev/fuse").exists():
        what = f"{', '.join(missing)} missing" if missing else "no /dev/fuse"
        hint = "install the packages gcc, pkg-config, fuse3 and libfuse3-dev, and run where FUSE is"
        unavailable(f"no slow file system here: {what}; {hint}", is_expected=not missing)
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, check=True
    )
    program = folder / "slowfs"
    strict = ["-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        ["gcc", *strict, "-o", program, SOURCE, *flags.stdout.split(), "-lpthread"], check=True
    )
    return program
