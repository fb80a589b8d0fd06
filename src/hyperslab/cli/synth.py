"""`hyperslab synth`: volumes of any size to try things on."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from hyperslab.cli.flags import completing
from hyperslab.cli.parse import parse_size
from hyperslab.machine.host import Host
from hyperslab.units import show_bytes, show_count
from hyperslab.workloads import synth as workload


def synth(
    kind: Annotated[
        str,
        typer.Argument(
            help="bigbrain (uint16, as histology) or climate (float32: time, lat, lon).",
            autocompletion=completing(lambda: ("bigbrain", "climate")),
        ),
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="Directory for the files.")],
    nbytes: Annotated[
        str, typer.Option("--size", help="Bytes of the whole array, such as 2GiB.")
    ] = "256MiB",
    blocks: Annotated[
        int, typer.Option(help="Number of files to cut it into; 1 makes one volume.")
    ] = 1,
    format: Annotated[str, typer.Option(help="nii or h5.")] = "nii",
    workers: Annotated[
        int | None, typer.Option(help="Processes that write; by default one per processor.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the random numbers; the same seed makes the same array.")
    ] = 0,
) -> int:
    """Write a deterministic array of any size, in parallel: the same voxels whatever the blocks and
    workers.
    """
    began = time.monotonic()
    workers = Host.here().cpus if workers is None else workers
    paths = workload.synth(kind, out, parse_size("--size", nbytes), blocks, format, workers, seed)
    written = sum(path.stat().st_size for path in paths)
    typer.echo(
        f"{show_count(len(paths), 'file')}, {show_bytes(written)}, in {out}"
        f" ({time.monotonic() - began:.1f} s)"
    )
    return 0
