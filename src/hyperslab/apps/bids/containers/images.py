"""Images: which runtime has the one that is wanted, and whether it is a BIDS App for this machine;
containers that a run has left.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hyperslab.apps.bids.containers.runtimes import (
    LABEL,
    NAME_OF_CALL,
    RUNTIMES,
    Container,
)
from hyperslab.errors import UsageError
from hyperslab.machine import asking

AUTO = "auto"
CHOICES = (AUTO, *RUNTIMES)
PATIENCE_S = 60.0
"How long a runtime may take to answer."
_URI = "://"
_ENDS = (".sif", ".simg")
_MAGIC = (b"SIF_MAGIC", b"hsqs")
"What the first bytes of an image have in them: SIF, squashfs."
_HEAD_NBYTES = 64
_ABSENT = ("no such image", "not known", "unable to find")
"Words of runtimes for an image that is not there."
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}
"Names that images have for machines."


def is_file(image: str) -> bool:
    """Whether an image is named as a file, or folder, of Apptainer's."""
    return image.endswith(_ENDS) or os.path.exists(image)


def require_usable(asked: Container, is_here: bool = True) -> Container:
    """A container with its runtime chosen, and its image known. Raises UsageError where one of them
    is missing or cannot work. `is_here` says whether this machine runs it: nothing is looked for
    otherwise.
    """
    if not asked.image:
        raise UsageError("--container: name an image, such as nipreps/mriqc:24.0.2 or app.sif")
    if _URI in asked.image:
        raise UsageError(
            f"--container {asked.image}: every participant would fetch it: make a file of it first"
            f" ('apptainer build app.sif {asked.image}'), or pull it and give its name"
        )
    fitting = _fitting(asked)
    if not is_here:
        return _settled(replace(asked, runtime=fitting[0]))
    present = [name for name in fitting if shutil.which(name) is not None]
    if not present:
        listed = " or ".join(fitting)
        raise UsageError(
            f"--container {asked.image}: {listed} is not on PATH: install it, or choose another"
            " runtime by --runtime"
        )
    refusals = []
    for name in present:
        try:
            return _checked(_settled(replace(asked, runtime=name)))
        except UsageError as error:
            refusals.append(error)
    raise refusals[0]


def remove_left(asked: Container, out: str, call: str = "") -> None:
    """Remove containers of runs into the same directory whose processes were all killed; `call` is
    the name of one of their submissions, '' means all. Raises UsageError where the runtime does not
    answer.
    """
    if asked.facts.takes_files:
        return
    wanted = [f"--filter=label={LABEL}={out}"]
    if call:
        wanted.append(f"--filter=name={NAME_OF_CALL.format(call=call)}")
    listed = _asked(asked.runtime, "ps", "--all", "--quiet", *wanted)
    if listed.returncode:
        said = asking.last_line(listed)
        raise UsageError(f"--container: {asked.runtime} cannot be asked: {said}")
    left = listed.stdout.split()
    if left:
        _asked(asked.runtime, *asked.facts.remove, *left)


def _fitting(asked: Container) -> tuple[str, ...]:
    """The runtimes that may be meant."""
    if asked.runtime != AUTO:
        return (asked.runtime,)
    takes_files = is_file(asked.image)
    return tuple(name for name, one in RUNTIMES.items() if one.takes_files == takes_files)


def _settled(asked: Container) -> Container:
    """Fill in what depends on the runtime: files by their whole paths; what Docker makes is the
    user's own.
    """
    if asked.facts.takes_files:
        return replace(asked, image=os.path.abspath(asked.image))
    if asked.runtime == "docker" and os.getuid():
        return replace(asked, user=f"{os.getuid()}:{os.getgid()}")
    return asked


def _checked(asked: Container) -> Container:
    if asked.facts.takes_files:
        _require_file(asked.image)
        return asked
    found = replace(asked, identity=_identity(asked))
    _require_limits(found)
    return found


def _require_file(path: str) -> None:
    """Raise UsageError for what is no image of Apptainer's; a folder may be one."""
    if os.path.isdir(path):
        return
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD_NBYTES)
    except OSError as error:
        raise UsageError(f"--container {path}: cannot be read: {error.strerror}") from error
    if not any(magic in head for magic in _MAGIC):
        raise UsageError(
            f"--container {path}: is no image (SIF or squashfs): build one, as by 'apptainer build"
            f" {path} docker://NAME'"
        )


def _identity(asked: Container) -> str:
    """What the runtime knows the image by. Raises UsageError."""
    found = _asked(asked.runtime, "image", "inspect", asked.image)
    if found.returncode:
        said = asking.last_line(found)
        if any(word in said.lower() for word in _ABSENT):
            raise UsageError(
                f"--container {asked.image}: {asked.runtime} has no such image: type"
                f" '{asked.runtime} pull {asked.image}'"
            )
        raise UsageError(f"--container {asked.image}: {asked.runtime} cannot be asked: {said}")
    described = _described(asked, found.stdout)
    _require_app(asked, described)
    return str(described["Id"])


def _require_limits(asked: Container) -> None:
    """Raise UsageError for limits that a container would run without: control groups of version 1
    are root's, and Podman only warns.
    """
    is_limited = asked.memory_nbytes is not None or asked.cpus is not None
    if not is_limited or asked.runtime != "podman" or not os.geteuid():
        return
    said = _asked(asked.runtime, "info", "--format", "{{.Host.CgroupsVersion}}")
    if said.stdout.strip() == "v1":
        raise UsageError(
            "--container-memory, --container-cpus: for users other than root, podman holds no"
            " container to them on this machine, whose control groups are of version 1: leave them"
            " out, or run as root"
        )


def _described(asked: Container, said: str) -> Mapping[str, Any]:
    try:
        found = json.loads(said)[0]
        found["Id"]
    except (ValueError, LookupError, TypeError) as error:
        raise UsageError(
            f"--container {asked.image}: what '{asked.runtime} image inspect' says of it is not"
            " understood"
        ) from error
    described: Mapping[str, Any] = found
    return described


def _require_app(asked: Container, described: Mapping[str, Any]) -> None:
    """Raise UsageError for an image that cannot be a BIDS App on this machine."""
    config = described.get("Config") or {}
    if not config.get("Entrypoint"):
        raise UsageError(
            f"--container {asked.image}: is no BIDS App: it has no entrypoint, which would be given"
            " the dataset"
        )
    machine = platform.machine()
    own = _ARCHITECTURES.get(machine, machine)
    made_for = described.get("Architecture", own)
    if made_for != own:
        raise UsageError(
            f"--container {asked.image}: is made for {made_for}, and this machine is {own}: pull it"
            f" with --platform linux/{own}"
        )


def _asked(runtime: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What a runtime answers. Raises UsageError where it does not."""
    try:
        return asking.asked((runtime, *words), PATIENCE_S)
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"--container: {runtime} has not answered for {PATIENCE_S:g} s: see that it works, as"
            f" by '{runtime} info'"
        ) from error
    except OSError as error:
        raise UsageError(f"--container: {runtime} cannot be started: {error.strerror}") from error
