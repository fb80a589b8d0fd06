"""Scratch and a plain directory hold the same after the same operations of several threads."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.storage.scratch.test_file_system import served

THREADS, STEPS, NAMES, FOLDERS = 4, 500, 12, 3
LONGEST = 40_000
Step = Callable[[Path], object]


def files_of(place: Path, thread: int) -> list[str]:
    """Names that a thread finds in all folders, each as often as it is listed."""
    return sorted(
        f"{folder.name}/{name}"
        for folder in place.iterdir()
        for name in os.listdir(folder)
        if name.startswith(f"{thread}-")
    )


def step_of(draw: random.Random, thread: int) -> Step:
    """One operation on files of a thread, which lie among those of others."""

    def name() -> str:
        return f"{draw.randrange(FOLDERS)}/{thread}-{draw.randrange(NAMES)}"

    one, other = name(), name()
    offset, data = draw.randrange(LONGEST), draw.randbytes(draw.randrange(LONGEST))
    mode = draw.choice((0o600, 0o640, 0o444))

    def write(place: Path) -> None:
        descriptor = os.open(place / one, os.O_CREAT | os.O_RDWR)
        os.pwrite(descriptor, data, offset)
        os.close(descriptor)

    def append(place: Path) -> None:
        with (place / one).open("ab") as file:
            file.write(data)

    def replace(place: Path) -> None:
        (place / f"{one}.new").write_bytes(data)
        (place / f"{one}.new").rename(place / one)

    def read(place: Path) -> bytes:
        return (place / one).read_bytes()

    known: tuple[Step, ...] = (
        write,
        append,
        replace,
        read,
        lambda place: os.truncate(place / one, offset),
        lambda place: (place / one).unlink(),
        lambda place: os.rename(place / one, place / other),
        lambda place: os.link(place / one, place / other),
        lambda place: (place / one).chmod(mode),
        lambda place: files_of(place, thread),
    )
    return draw.choice(known)


def outcome(step: Step, place: Path) -> object:
    """What an operation returns, or by which error it fails."""
    try:
        return step(place)
    except OSError as error:
        return error.errno


def play(thread: int, places: tuple[Path, Path]) -> None:
    draw = random.Random(thread)
    for number in range(STEPS):
        step = step_of(draw, thread)
        one, other = (outcome(step, place) for place in places)
        assert one == other, f"thread {thread}, step {number}"


def described(place: Path) -> dict[str, tuple[int, int, int, bytes]]:
    found = {}
    for path in place.rglob("*"):
        about = path.stat()
        if path.is_file():
            shown = (about.st_mode, about.st_nlink, about.st_size, path.read_bytes())
            found[path.relative_to(place).as_posix()] = shown
    return found


def test_a_plain_directory_is_the_same(tmp_path: Path) -> None:
    on, place, plain = (tmp_path / name for name in ("on", "place", "plain"))
    for folder in (on, place, plain):
        folder.mkdir()
    with served(on, place):
        for top in (place, plain):
            for number in range(FOLDERS):
                (top / str(number)).mkdir()
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda thread: play(thread, (place, plain)), range(THREADS)))
        assert described(place) == described(plain)
        assert len(described(plain)) > THREADS
