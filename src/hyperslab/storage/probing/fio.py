"""fio, where it is installed: the same points, measured by the program that the field trusts."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hyperslab.errors import HyperslabError, UsageError
from hyperslab.storage.probing.bench import COLD, Bench, Setting

PROGRAM = "fio"
MEASURED = ("read-cold", "write", "write-direct")
"Curves whose points it can measure in the same way."
START_S = 0.4
"Time that it takes to start and to end, about."
_LIMIT_S = 300


def require() -> None:
    """Raise UsageError where there is no fio."""
    if shutil.which(PROGRAM) is None:
        raise UsageError(
            "--fio: there is no fio here; install it (Debian package fio), or leave --fio out"
        )


def rate(bench: Bench, setting: Setting) -> float:
    """Rate of all clients of a setting, bytes per second: the same requests, to as many files."""
    inherited = bench.folder.descriptors
    common = _common(bench, setting)
    if setting.what == "read-cold":
        return _run([*common, *_reading(bench, setting)], "read", inherited)
    return _run([*common, *_writing(bench, setting)], "write", inherited)


def _common(bench: Bench, setting: Setting) -> list[str]:
    return [
        PROGRAM,
        "--name=probe",
        f"--directory={bench.folder.path}",
        f"--bs={setting.request_nbytes}",
        f"--numjobs={setting.clients}",
        "--ioengine=psync",
        "--group_reporting=1",
        "--output-format=json",
    ]


def _reading(bench: Bench, setting: Setting) -> list[str]:
    """Read the files of the bench, once out of the page cache: all of them, or one for each
    client.
    """
    options = [
        "--rw=read",
        "--invalidate=1",
        f"--filesize={bench.files[0][2]}",
        f"--runtime={round(bench.seconds * 1000)}ms",
    ]
    if setting.clients > 1:
        return [*options, f"--filename_format={COLD}$jobnum"]
    names = [Path(path).name for path, _, _ in bench.files]
    return [*options, f"--filename={':'.join(names)}", "--file_service_type=sequential"]


def _writing(bench: Bench, setting: Setting) -> list[str]:
    """Write a new file for each client, and have it on storage at the end."""
    return [
        "--rw=write",
        f"--size={bench.share(setting)}",
        "--filename_format=fio.$jobnum",
        f"--direct={int(setting.what == 'write-direct')}",
        "--end_fsync=1",
        "--fallocate=none",
        "--unlink=1",
    ]


def _run(command: Sequence[str], way: str, inherited: Sequence[int]) -> float:
    """Bytes per second that fio says. Raises HyperslabError where it fails."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT_S,
        pass_fds=inherited,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise HyperslabError(f"fio failed: {done.stderr.strip() or done.stdout.strip()}")
    text = done.stdout[done.stdout.index("{") :]  # warnings come before
    return float(json.loads(text)["jobs"][0][way]["bw_bytes"])
