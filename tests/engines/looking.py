"""A function that tells where its worker leaves temporary files, and may kill what started it."""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from hyperslab.arrays import Array
from hyperslab.engines.scratched import MODULE
from hyperslab.plan.pipeline import Pipeline

LOOK = f"{__file__}:look"
"The function, for hosts that do not see it."


def look(block: Array, folder: str, dies: bool = False) -> Array:
    """The block; a file of the folder tells what this process sees. The first one that is to die
    ends with the process that has made its scratch.
    """
    place = tempfile.gettempdir()
    Path(place, f"of-{os.getpid()}").touch()
    told = {"host": socket.gethostname(), "place": place, "is_mounted": os.path.ismount(place)}
    Path(folder, f"{told['host']}.{os.getpid()}.json").write_text(json.dumps(told))
    if dies:
        _die(Path(folder, "died"))
    return block


def _die(mark: Path) -> None:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    (maker,) = (one for one in psutil.Process().parents() if _makes_scratch(one.cmdline()))
    maker.send_signal(signal.SIGKILL)
    time.sleep(60)  # it ends with that
    raise AssertionError("its scratch is gone, and it is not")


def _makes_scratch(words: Sequence[str]) -> bool:
    return any(f"from {MODULE} import" in word for word in words)


def seen(folder: Path) -> list[dict[str, Any]]:
    """What processes have told."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def looked(pipeline: Pipeline, place: Path) -> tuple[Pipeline, str]:
    """A pipeline whose workers tell what they see, and what they are given as scratch: images in a
    folder.
    """
    from tests.storage.scratch.stage import require_program  # which hosts do not see

    require_program()
    for name in ("told", "storage"):
        (place / name).mkdir()
    return pipeline.map(LOOK, {"folder": str(place / "told")}), f"image:{place / 'storage'}"


def places(place: Path) -> set[str]:
    """The images that they have told of."""
    return {one["place"] for one in seen(place / "told") if one["is_mounted"]}


def require_own(told: Sequence[dict[str, Any]], storage: Path, runtime: Path) -> None:
    """Each process had an image of its own, of which nothing is left."""
    assert all(one["is_mounted"] for one in told), told
    places = [one["place"] for one in told]
    assert len(set(places)) == len(places)
    assert all(place.startswith(f"{runtime}/hyperslab-scratch/") for place in places)
    assert os.listdir(storage) == []
    assert os.listdir(runtime / "hyperslab-scratch") == ["lock"]
