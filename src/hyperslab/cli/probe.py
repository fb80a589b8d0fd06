"""`hyperslab probe`: what storage does when it is asked, and the links of a cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from hyperslab import engines
from hyperslab.apps.probing import Found, probe_hosts
from hyperslab.cli import document
from hyperslab.cli.companions import join
from hyperslab.cli.flags import Engine, Json, SlurmOption, Workers, connect_flag
from hyperslab.cli.parse import parse_size
from hyperslab.cli.telling import told_if_heard
from hyperslab.driver import options as runs
from hyperslab.driver.hosts import reaches_hosts
from hyperslab.engines.facts import DEFAULT
from hyperslab.errors import UsageError
from hyperslab.machine import links
from hyperslab.report.probed.lines import details, headline
from hyperslab.report.probed.links import answer_of, details_of, lines_of
from hyperslab.report.probed.overview import overview_svg
from hyperslab.report.probed.page import write_probe_page
from hyperslab.report.probed.together import sharing_lines
from hyperslab.storage.probing import description, measuring
from hyperslab.storage.probing.place import VARIABLE, default_path
from hyperslab.storage.probing.preparing import FULL, QUICK, Options
from hyperslab.storage.probing.records import Probed
from hyperslab.storage.tiers.looking import look
from hyperslab.storage.tiers.tier import Tier, share_a_medium
from hyperslab.storage.whole import replace_text
from hyperslab.units import show_seconds

Opt = typer.Option
MOST_CLIENTS = 256
PICTURE = "What storage does, as it was measured"
TICK_S = 0.2


def probe(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Directories on the storage to be measured."),
    ] = [],  # noqa: B006
    size: Annotated[
        str | None,
        Opt(
            help=(
                "Size of the files that are read, such as 4GB; 2.25 times as much is on the disk at"
                " a time. By default what can be written in about 2 s, 16 MiB to 1 GiB. Of links:"
                " the bytes that are sent each way between two nodes, 2 MiB by default."
            )
        ),
    ] = None,
    quick: Annotated[
        bool, Opt("--quick", help="Measure for a few seconds: shorter, and less often.")
    ] = False,
    clients: Annotated[
        int | None,
        Opt(help="Most processes at a time; by default as many as processors, 4 to 32."),
    ] = None,
    fio: Annotated[
        bool, Opt("--fio", help="Have fio measure some points in turns with us, and compare.")
    ] = False,
    drop_caches: Annotated[
        bool,
        Opt(
            "--drop-caches",
            help="Have the kernel forget all caches before cold reads; for root, slows all others.",
        ),
    ] = False,
    engine: Engine = DEFAULT,
    workers: Workers = None,
    connect: Annotated[str, connect_flag()] = "",
    slurm_option: SlurmOption = [],  # noqa: B006
    output: Annotated[
        Path | None,
        Opt(
            "--output",
            "-o",
            help=f"File for what was measured, instead of ${VARIABLE} or the user's"
            " machine.json; the page goes to the same folder.",
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        Opt(help="Draw all tiers of the file for what was measured in one picture, as SVG."),
    ] = None,
    network: Annotated[
        bool,
        Opt(
            "--network",
            help="Measure the links of the cluster at --connect instead: round trips and rates"
            " between its workers, its scheduler and this process.",
        ),
    ] = False,
    json: Json = False,
    quiet: Annotated[bool, Opt("--quiet", "-q", help="Print nothing but errors.")] = False,
    verbose: Annotated[bool, Opt("--verbose", "-v", help="Print every number.")] = False,
) -> int:
    """Measure what the storage of PATHs does: bandwidth, latency, operations on names; and keep it
    for runs and reports.

    With --engine and --connect: from every host of a cluster, one at a time and all at once. With
    --network and --connect: the links between the processes of a Dask cluster.
    """
    _require_asked(paths, network, connect)
    join(engine, connect)
    options = _options(size, quick, clients, drop_caches, fio)
    cluster = runs.Options(
        engine=engine, workers=workers, connect=connect, slurm_option=slurm_option
    )
    place = output or default_path()
    description.load_machine(place)  # one that cannot be added to is told first
    is_silent = quiet or json
    if network:
        told = _links(engine, connect, options, place, quiet, is_silent, verbose)
    elif reaches_hosts(cluster):
        found = probe_hosts(paths, options, cluster)
        description.add(place, found.tiers, found.sharing)
        _tell_hosts(found, is_silent, verbose)
        told = found._asdict()
    else:
        told = _probed_here(paths, options, place, quiet, is_silent, verbose)._asdict()
    page = place.with_suffix(".html")
    machine = description.load_machine(place)
    write_probe_page(page, machine)
    if picture is not None:
        replace_text(picture, overview_svg(PICTURE, list(machine.tiers.values())))
    if json:
        document.say({"machine": place, "page": page, **told})
    elif not quiet:
        typer.echo(f"\nsaved      {place}\npage       {page}")
    return 0


def _require_asked(paths: Sequence[Path], network: bool, connect: str) -> None:
    """Raise UsageError where neither storage nor links are asked for, or both are."""
    if network and paths:
        raise UsageError(f"--network and {paths[0]}: links or storage are measured, not both")
    if network and not connect:
        raise UsageError("--network: name the cluster, --connect tcp://HOST:PORT of its scheduler")
    if not network and not paths:
        raise UsageError("give a directory whose storage is to be measured, or --network")


def _links(
    engine: str,
    connect: str,
    options: Options,
    place: Path,
    quiet: bool,
    is_silent: bool,
    verbose: bool,
) -> dict[str, Any]:
    """Probe the links of a cluster, which are kept and told."""
    effort = links.QUICK if options.effort is QUICK else links.FULL
    if options.size_nbytes is not None:
        effort = replace(effort, nbytes=options.size_nbytes, least_s=0.0)
    ticker = Ticker(connect, quiet)
    try:
        network = engines.links(engine, connect, effort, ticker.told)
    finally:
        ticker.end()
    description.add(place, networks=[network])
    lines = lines_of(network)
    if verbose:
        lines += details_of(network)
    if not is_silent:
        typer.echo("\n".join(lines))
    return {"answer": answer_of(network), "network": network}


def _probed_here(
    paths: Sequence[Path],
    options: Options,
    place: Path,
    quiet: bool,
    is_silent: bool,
    verbose: bool,
) -> Found:
    """Probe paths from this host; each is kept and told as soon as it was measured."""
    found = []
    for path, tier in _different([(path, look(path)) for path in paths], is_silent):
        ticker = Ticker(path, quiet)
        try:
            found.append(measuring.probe(path, tier, options, ticker.told))
        finally:
            ticker.end()
        description.add(place, found[-1:])
        if not is_silent:
            _tell(found[-1], verbose)
    return Found(found, [], ())


def _tell_hosts(found: Found, is_silent: bool, verbose: bool) -> None:
    """Print what the hosts do together, and each of them."""
    for host in found.silent:
        typer.echo(f"{host}: no task of the engine has come to this host in time", err=True)
    if is_silent:
        return
    for sharing in found.sharing:
        typer.echo("\n".join(sharing_lines(sharing)))
    for probed in found.tiers:
        _tell(probed, verbose)


def _options(
    size: str | None, quick: bool, clients: int | None, drop_caches: bool, fio: bool
) -> Options:
    """What was asked for. Raises UsageError."""
    if clients is not None and not 1 <= clients <= MOST_CLIENTS:
        raise UsageError(f"--clients {clients}: give a number from 1 to {MOST_CLIENTS}")
    size_nbytes = None
    if size is not None:
        size_nbytes = parse_size("--size", size)
    effort = FULL
    if quick:
        effort = QUICK
    return Options(size_nbytes, effort, clients, drop_caches, fio)


def _different(tiers: Sequence[tuple[Path, Tier]], is_silent: bool) -> Sequence[tuple[Path, Tier]]:
    """Paths that do not lie on the same medium as an earlier one, of which that is told."""
    kept: list[tuple[Path, Tier]] = []
    for path, tier in tiers:
        same = next((other for other, known in kept if share_a_medium(known, tier)), None)
        if same is None:
            kept.append((path, tier))
        elif not is_silent:
            typer.echo(f"{path}: on the same medium as {same}, measured once")
    return kept


def _tell(probed: Probed, verbose: bool) -> None:
    lines = headline(probed)
    if verbose:
        lines += details(probed)
    typer.echo("\n".join(lines))


class Ticker:
    """How far a probe is, in one line of a terminal; nothing where there is none."""

    def __init__(self, path: Path | str, quiet: bool, stream: TextIO | None = None) -> None:
        self._path = path
        self._stream = stream or sys.stderr
        self._is_shown = not quiet and self._stream is not None and self._stream.isatty()
        self._began = time.monotonic()
        self._told = 0.0

    def told(self, done: int, total: int) -> None:
        """So many measurements of so many are done; of none as long as it is not known."""
        now = time.monotonic()
        if not self._is_shown or now - self._told < TICK_S:
            return
        self._told = now
        far = "looking which points to measure"
        if total:
            far = f"{done} of {total} measurements"
        self._write(f"\r\033[K{self._path}: {far}, {show_seconds(now - self._began)}")

    def end(self) -> None:
        """Leave the line empty."""
        if self._is_shown and self._told:
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        with told_if_heard():
            self._stream.write(text)
            self._stream.flush()
