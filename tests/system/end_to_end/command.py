"""The command line as a user calls it, and the files that its tests run over."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO
from unittest import mock

import nibabel as nib
import numpy as np
import typer

from hyperslab import cli
from hyperslab.arrays import Array
from hyperslab.cli import main, verbs

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data"
MRI = DATA / "mri"
LAYOUT = DATA / "hdf5" / "layout"
ANATOMICAL = MRI / "anatomical.nii"
"int16, big-endian, 33 x 41 x 25."
FUNCTIONAL = MRI / "functional.nii"
"int16 with slope and intercept, 17 x 21 x 3 x 20."
EPI = MRI / "example4d.nii.gz"
"int16, 128 x 96 x 24 x 2."
BRAIN = MRI / "colin27_ch2bet_brain.nii.gz"
"uint8, 181 x 217 x 181."
AS_INSTALLED = [sys.executable, "-c", "from hyperslab.cli import main; main()"]
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
"""What a program runs first that a test interrupts: one that a script has started in the background
ignores Ctrl-C.
"""
PROGRAM = [*AS_INSTALLED[:2], f"{INTERRUPTIBLE}; {AS_INSTALLED[2]}"]


class Finished(NamedTuple):
    """What a command left on the terminal."""

    code: int
    out: str
    err: str


is_light = False
"Whether runs take a light engine where they name none; the fixture `on_threads` has them do so."


def light(words: Sequence[str]) -> tuple[str, ...]:
    """An engine that starts no processes, where a run takes the usual one: the tests of engines
    hold them to the same outputs.
    """
    if words[:1] in (["run"], ["convert"], ["bids"]) and "--engine" not in words:
        return ("--engine", "threads")
    return ()


def _told(arguments: Sequence[object]) -> list[str]:
    words = [str(argument) for argument in arguments]
    if is_light:
        words += light(words)
    return words


def call(*arguments: object) -> Finished:
    """Run a command in this process, which saves the start of an interpreter."""
    out, err = io.StringIO(), io.StringIO()
    return Finished(call_into(out, err, *arguments), out.getvalue(), err.getvalue())


def call_into(out: TextIO, err: TextIO, *arguments: object) -> int:
    """Run a command in this process, which says what it does to these; returns its status."""
    path, handler, code = list(sys.path), signal.getsignal(signal.SIGTERM), 0
    words = _told(arguments)
    with _quick(words), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.path[:] = path
            signal.signal(signal.SIGTERM, handler)
    return code


_load = functools.cache(verbs.load)
_get_command = functools.cache(typer.main.get_command)


@contextlib.contextmanager
def _quick(words: Sequence[str]) -> Iterator[None]:
    """A block in which the list of verbs, and the flags of a verb, are made once for all commands
    but those that show their help, and no worker is started beside imports, which were made here
    long ago: most commands would start it for nothing.
    """
    none = contextlib.nullcontext()
    load: Callable[..., Any] = _load
    get_command: Callable[..., Any] = _get_command
    if {"--help", "-h"} & set(words):
        load, get_command = verbs.load, typer.main.get_command
    with (
        mock.patch.object(cli, "worker_ahead", return_value=none),
        mock.patch.object(verbs, "load", load),
        mock.patch.object(typer.main, "get_command", get_command),
    ):
        yield


GROWTH = """
import contextlib, json, sys
from pathlib import Path
from hyperslab.cli import main
from hyperslab.machine.host import peak_rss_bytes
for arguments in map(json.loads, sys.argv[1:]):
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_rss_bytes()
    try:
        main(arguments)
    except SystemExit as end:
        assert not end.code, end
print("growth", peak_rss_bytes() - before)
"""
"The peak begins anew, at what the process holds, where 5 is written (proc(5))."


def growth(first: Sequence[object], then: Sequence[object]) -> int:
    """How many bytes a process that has run a small command comes to hold more while it runs
    another one.
    """
    line = [
        sys.executable,
        "-c",
        GROWTH,
        *(json.dumps([*map(str, arguments)]) for arguments in (first, then)),
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def succeed(*arguments: object) -> str:
    """Run a command that must succeed; returns what it printed."""
    done = call(*arguments)
    assert done.code == 0, done
    return done.out


def start(*arguments: object, cwd: Path | None = None, **options: Any) -> subprocess.Popen[str]:
    """Start the program as a process of its own."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([*PROGRAM, *_told(arguments)], cwd=cwd, text=True, **pipes)


def call_program(*arguments: object, cwd: Path | None = None) -> Finished:
    """Run the program as a process of its own, to its end."""
    process = start(*arguments, cwd=cwd)
    out, err = process.communicate(timeout=200)
    return Finished(process.returncode, out, err)


def save(path: Path, values: Array, affine: Array | None = None) -> Path:
    """Write an uncompressed or compressed NIfTI image with nibabel."""
    path.parent.mkdir(parents=True, exist_ok=True)
    placed = np.diag([0.5, 0.75, 2.0, 1.0]) if affine is None else affine
    nib.save(nib.Nifti1Image(values, placed), path)  # type: ignore[no-untyped-call]
    return path


def image_of(path: Path) -> Any:
    """A NIfTI file, opened by nibabel."""
    return nib.load(path)


def values_of(path: Path) -> Array:
    """The unscaled values of a NIfTI file, as nibabel reads them."""
    return np.asarray(image_of(path).dataobj.get_unscaled())


def real_values_of(path: Path) -> Array:
    """The scaled values of a NIfTI file, as nibabel reads them."""
    return np.asarray(image_of(path).dataobj)


def affine_of(path: Path) -> Array:
    return np.asarray(image_of(path).affine)


def outputs(folder: Path) -> list[Path]:
    """Everything in an output directory but the records."""
    return sorted(path for path in folder.iterdir() if path.name != ".hyperslab")


def only_output(folder: Path) -> Path:
    (path,) = outputs(folder)
    return path


def block_box(path: Path, affine: Array) -> tuple[slice, ...]:
    """Where a block lies in the array of this affine, from the millimetres in its own header
    alone.
    """
    corner = np.linalg.inv(affine) @ affine_of(path)[:, 3]
    first = np.rint(corner[:3]).astype(int)
    assert np.allclose(corner[:3], first, atol=1e-3), path
    return tuple(slice(a, a + n) for a, n in zip(first, values_of(path).shape, strict=False))


def assembled(folder: Path, like: Path) -> Array:
    """The array that blocks in a directory make, each put where its header says; every voxel must
    come once.
    """
    parts = outputs(folder)
    whole = np.zeros(np.asarray(values_of(like)).shape, real_values_of(parts[0]).dtype)
    times = np.zeros(whole.shape, int)
    for path in parts:
        box = block_box(path, affine_of(like))
        whole[box] = real_values_of(path)
        times[box] += 1
    assert (times == 1).all()
    return whole


def tree(folder: Path) -> list[str]:
    """Everything below a directory."""
    return sorted(os.path.relpath(path, folder) for path in folder.rglob("*"))


SMALL = ("--engine", "serial", "-q")
"For conversions of a few kilobytes."


def convert(*arguments: object) -> None:
    """Convert in this process; it must succeed without a word."""
    done = call("convert", *arguments, *SMALL)
    assert done == Finished(0, "", ""), done


def refuse(*arguments: object) -> str:
    """What a conversion says that is refused, in one line."""
    done = call("convert", *arguments, *SMALL)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
    return done.err
