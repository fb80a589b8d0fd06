"""Datasets that are made: sites whose participants have few or many sessions, as in CoRR, and heads
of shells around a ball, which is their brain.

A head is as large as one, so that brains are found in it; it is no head, so that their volumes say
nothing. The same seed makes the same files.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hyperslab import formats
from hyperslab.apps.bids.description import BIDS_VERSION, FILE
from hyperslab.arrays import Array
from hyperslab.arrays.header import Header
from hyperslab.blocks import writing
from hyperslab.errors import RunStopped

MOST_SITES = 29
"Sites of CoRR (X.-N. Zuo and others, Scientific Data 1:140049, 2014)."
LEAST_MEMBERS = 4
"Participants of a site, in datasets too small for so many sites."
MOST_SESSIONS = 10
MORE_SESSIONS = 0.6
"Chance of one more session, which makes 2.5 of them on average, as CoRR has."
VIEW_MM = 192.0
"Length of the edges of an image."
LEAST_VOXELS = 32
"Voxels along an edge, below which no brain is found."
SCALP_MM, SKULL_MM, FLUID_MM = 85.0, 80.0, 76.0
"Radii at which scalp, skull and the fluid within end."
BRAIN_MM = (66.0, 74.0)
"Radii between which a brain ends."
AIR, SCALP, SKULL, FLUID, BRAIN = 0, 600, 60, 150, 800
"Intensities."
NOISE = 20.0
"Standard deviation of intensities."
DTYPE = np.dtype(np.int16)


@dataclass(frozen=True, slots=True)
class _Member:
    """A participant that is to be made."""

    site: int
    label: str
    sessions: int


def make_dataset(folder: Path, participants: int, nbytes: int, seed: int = 0) -> int:
    """Write a collection of datasets, one for each site, whose images have so many bytes together;
    returns the number of images. Raises RunStopped where that is not possible.
    """
    members = list(_members(participants, seed))
    images = sum(member.sessions for member in members)
    voxels = max(LEAST_VOXELS, round((nbytes / images / DTYPE.itemsize) ** (1 / 3)))
    try:
        for member in members:
            _write_member(folder, member, voxels, seed)
    except OSError as error:
        raise RunStopped(f"making {folder} stopped: {error}; make room there") from error
    return images


def sessions(draw: random.Random) -> Iterator[int]:
    """Numbers of the sessions of a participant, from 1 on."""
    yield 1
    for session in range(2, MOST_SESSIONS + 1):
        if draw.random() > MORE_SESSIONS:
            return
        yield session


def _members(participants: int, seed: int) -> Iterator[_Member]:
    draw = random.Random(seed)
    sites = max(1, min(MOST_SITES, participants // LEAST_MEMBERS))
    for number in range(participants):
        yield _Member(number % sites + 1, f"{number + 1:04}", len(list(sessions(draw))))


def _write_member(folder: Path, member: _Member, voxels: int, seed: int) -> None:
    home = folder / f"SITE_{member.site}"
    home.mkdir(parents=True, exist_ok=True)
    said = {"Name": f"made heads, site {member.site}", "BIDSVersion": BIDS_VERSION}
    (home / FILE).write_text(json.dumps(said) + "\n")
    subject = f"sub-{member.label}"
    for session in range(1, member.sessions + 1):
        anatomy = home / subject / f"ses-{session}" / "anat"
        anatomy.mkdir(parents=True)
        draw = np.random.default_rng((seed, int(member.label), session))
        _save(anatomy / f"{subject}_ses-{session}_T1w.nii", _head(draw, voxels))


def _head(draw: np.random.Generator, voxels: int) -> Array:
    """Values of a head; its brain is as large as is drawn."""
    middles = (np.arange(voxels) + 0.5) * VIEW_MM / voxels - VIEW_MM / 2
    squares = middles**2
    apart_mm = np.sqrt(squares[:, None, None] + squares[:, None] + squares)
    edges = (draw.uniform(*BRAIN_MM), FLUID_MM, SKULL_MM, SCALP_MM)
    levels = np.array((BRAIN, FLUID, SKULL, SCALP, AIR), np.float32)
    values = levels[np.searchsorted(edges, apart_mm)]
    values += draw.standard_normal(values.shape, np.float32) * np.float32(NOISE)
    return np.maximum(values, 0).astype(DTYPE)


def _save(path: Path, values: Array) -> None:
    size_mm = VIEW_MM / len(values)
    affine = np.diag([size_mm, size_mm, size_mm, 1.0])
    affine[:3, 3] = (size_mm - VIEW_MM) / 2
    form = formats.module(formats.format_of_name(str(path)))
    sink = form.sink(str(path), values.shape, values.dtype, Header(base_affine=affine))
    writing.write(sink, values)
