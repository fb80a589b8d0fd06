"""Containers with the interface of BIDS Apps, as commands: Apptainer, Docker and Podman.

The dataset is seen read-only, in a place of its own, the results and scratch directories likewise;
nothing else of the host is, but what Apptainer mounts by itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from hyperslab.errors import UsageError

APPTAINER, SINGULARITY, DOCKER, PODMAN = "apptainer", "singularity", "docker", "podman"
RUNTIMES = (APPTAINER, SINGULARITY, PODMAN, DOCKER)
"Programs that run containers, in the order in which one is looked for."
DATA, OUT, WORK = "/data", "/out", "/work"
"Places of the dataset, the results and the scratch directory in a container."


@dataclass(frozen=True, slots=True)
class Container:
    """An image, and what runs it."""

    runtime: str
    image: str
    "Name of an image, or of a file, as the runtime takes it."
    cpus: float | None = None
    "Processors that one container may use; None: all."
    memory_bytes: int | None = None
    "Memory that it may use; None: all."


def runtime_for(image: str, asked: str = "") -> str:
    """The runtime that is asked for, or that is here and takes such an image. Raises UsageError."""
    if asked and asked not in RUNTIMES:
        raise UsageError(f"--runtime {asked}: choose one of {', '.join(RUNTIMES)}")
    wanted = [asked] if asked else _that_take(image)
    for program in wanted:
        if shutil.which(program):
            return program
    raise UsageError(
        f"{image}: there is no {' or '.join(wanted)} on PATH, which would run it: install one"
    )


def command_of(container: Container, bids_dir: str, name: str, words: Sequence[str]) -> tuple[str, ...]:
    """The command that runs the app of an image over the dataset: `words` are its level and what
    follows. `name` is that of the container, where runtimes give them names.
    """
    if container.runtime in (APPTAINER, SINGULARITY):
        return _by_apptainer(container, bids_dir, words)
    return _by_engine(container, bids_dir, name, words)


def _that_take(image: str) -> Sequence[str]:
    is_file = image.endswith((".sif", ".simg")) or os.path.isdir(image)
    return (APPTAINER, SINGULARITY) if is_file else RUNTIMES


def _by_apptainer(container: Container, bids_dir: str, words: Sequence[str]) -> tuple[str, ...]:
    limits = []
    if container.cpus is not None:
        limits += ["--cpus", f"{container.cpus:g}"]
    if container.memory_bytes is not None:
        limits += ["--memory", str(container.memory_bytes)]
    binds = (f"{bids_dir}:{DATA}:ro", f"{{out}}:{OUT}", f"{{work}}:{WORK}")
    mounts = [word for bind in binds for word in ("--bind", bind)]
    image = container.image
    if not os.path.exists(image) and "://" not in image:
        image = f"docker://{image}"
    return (
        *(container.runtime, "run", "--cleanenv", "--containall", *mounts, *limits, image),
        *(DATA, OUT, *words),
    )


def _by_engine(
    container: Container, bids_dir: str, name: str, words: Sequence[str]
) -> tuple[str, ...]:
    limits = []
    if container.cpus is not None:
        limits += ["--cpus", f"{container.cpus:g}"]
    if container.memory_bytes is not None:
        limits += ["--memory", f"{container.memory_bytes}b"]
    volumes = (f"{bids_dir}:{DATA}:ro", f"{{out}}:{OUT}", f"{{work}}:{WORK}")
    mounts = [word for volume in volumes for word in ("--volume", volume)]
    own = ()
    if container.runtime == DOCKER:  # whose results would belong to root
        own = ("--user", f"{os.getuid()}:{os.getgid()}")
    return (
        *(container.runtime, "run", "--rm", "--name", name, "--network", "none", *own),
        *(*mounts, *limits, container.image, DATA, OUT, *words),
    )
