"""fio, where it is installed: the same points, measured by the program that the field trusts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.errors import HyperslabError, UsageError
from hyperslab.storage.probing import caches
from hyperslab.storage.probing.bench import COLD, Bench, Setting
from hyperslab.storage.probing.folder import Folder

PROGRAM = "fio"
MEASURED = ("read-cold", "write", "write-direct")
"Curves whose points it can measure in the same way."
MEASURED_LATENCY = ("cold", "direct")
"Kinds of latencies that it can."
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
    common = [*_common(setting.request_nbytes, setting.clients), "--fadvise_hint=0"]
    if setting.what == "read-cold":
        for path, _, _ in bench.files:
            _forget(path)
        jobs = _run([*common, *_reading(bench, setting)], bench.folder)
        return sum(_rate_of_requests(job["read"]) for job in jobs)
    jobs = _run([*common, *_writing(bench, setting)], bench.folder)
    return _rate_until_the_end([job["write"] for job in jobs])


def latency(bench: Bench, nbytes: int, *, is_direct: bool) -> float:
    """Median of the times of small reads at random places, seconds: one at a time, none twice."""
    for path, _, _ in bench.files:
        _forget(path)
    options = [
        "--rw=randread",
        "--randrepeat=0",
        f"--direct={int(is_direct)}",
        "--lat_percentiles=1",
        "--percentile_list=50",
        *_lasting(bench),
        *_all_files(bench),
    ]
    hint = "--fadvise_hint=random"
    [job] = _run([*_common(nbytes, 1), hint, *options], bench.folder)
    return float(job["read"]["lat_ns"]["percentile"]["50.000000"] / 1e9)


def _forget(path: str) -> None:
    """Have the kernel forget a file before the clock of fio runs, which would count that."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        caches.drop(fd)
    finally:
        os.close(fd)


def _rate_of_requests(told: Mapping[str, Any]) -> float:
    """Rate of a job over the time of its requests, which fio counts in nanoseconds."""
    latency = told["lat_ns"]
    return float(told["io_bytes"] / (latency["mean"] * latency["N"]) * 1e9)


def _rate_until_the_end(told: Sequence[Mapping[str, Any]]) -> float:
    """Rate of all jobs until the last of them has ended, which fio counts in milliseconds begun."""
    nbytes = sum(job["io_bytes"] for job in told)
    longest_ms = max(job["runtime"] for job in told)
    return float(nbytes / (longest_ms - 0.5) * 1e3)


def _common(request_nbytes: int, clients: int) -> list[str]:
    return [
        PROGRAM,
        "--name=probe",
        f"--bs={request_nbytes}",
        f"--numjobs={clients}",
        "--ioengine=psync",
        "--invalidate=0",
        "--output-format=json",
    ]


def _reading(bench: Bench, setting: Setting) -> list[str]:
    """Read the files of the bench once: all of them, or one for each client."""
    options = ["--rw=read", *_lasting(bench)]
    if setting.clients > 1:
        return [*options, f"--filename_format={COLD}$jobnum"]
    return [*options, *_all_files(bench), "--file_service_type=sequential"]


def _lasting(bench: Bench) -> list[str]:
    """End with the files, or after the time of a measurement."""
    return [f"--filesize={bench.files[0][2]}", f"--runtime={round(bench.seconds * 1000)}ms"]


def _all_files(bench: Bench) -> list[str]:
    names = [Path(path).name for path, _, _ in bench.files]
    return [f"--filename={':'.join(names)}"]


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


def _run(command: Sequence[str], folder: Folder) -> list[dict[str, Any]]:
    """What fio says of each job, which it runs in a folder: it would take some names of folders for
    several. Raises HyperslabError where it fails, or does not end.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT_S,
            cwd=folder.path,
            pass_fds=folder.descriptors,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise HyperslabError(
            f"fio has not ended within {_LIMIT_S} s: see whether the storage answers, or leave out"
            " --fio"
        ) from error
    if done.returncode != 0:
        raise HyperslabError(f"fio failed: {done.stderr.strip() or done.stdout.strip()}")
    text = done.stdout[done.stdout.index("{") :]  # warnings come before
    return list(json.loads(text)["jobs"])
