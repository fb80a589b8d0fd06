"""Closed surfaces of triangles: a sphere, and the voxels inside of a surface.

- a voxel is inside where the surface winds around it, so that folds and crossings of the surface
  leave no holes, nor does the edge of the grid, over which a surface may go
  (`tests/apps/bids/test_surface.py`)
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]
"Shape (vertices, 3)."
Faces = npt.NDArray[np.int64]
"Shape (triangles, 3): numbers of vertices, counter-clockwise as seen from outside."
Bools = npt.NDArray[np.bool_]

_GOLDEN = (1 + 5**0.5) / 2
_MOST_NEIGHBOURS = 6
_ASIDE = (1.3e-7, 3.1e-7)
"""Distance of the lines that are followed from the centres of voxels, in voxels: vertices and edges
at whole numbers are then beside them, never on them.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Mesh:
    """How the vertices of a sphere hang together; 12 of them have five neighbours, the others six.

    Where a vertex has but five, the sixth number is one beyond the last vertex, or face.
    """

    faces: Faces
    neighbours: npt.NDArray[np.int64]
    "Shape (6, vertices): the vertices that an edge leads to."
    beside: npt.NDArray[np.int64]
    "Shape (6, vertices): the faces that meet at a vertex."
    edges: npt.NDArray[np.int64]
    "Shape (edges, 2): vertices of each edge, the lower number first."


def sphere(subdivisions: int) -> tuple[Points, Mesh]:
    """Vertices of a sphere of radius 1, and its mesh: an icosahedron whose triangles are cut in
    four so many times, 20 * 4^n of them.
    """
    points, faces = _icosahedron()
    for _ in range(subdivisions):
        points, faces = _subdivided(points, faces)
    edges = _edges(faces)
    both = np.concatenate([edges, edges[:, ::-1]])
    corners = np.stack([faces.ravel(), np.repeat(np.arange(len(faces)), 3)], axis=1)
    mesh = Mesh(
        faces,
        _grouped(both, len(points), len(points)),
        _grouped(corners, len(points), len(faces)),
        edges,
    )
    return points, mesh


def normals(points: Points, mesh: Mesh) -> Points:
    """Unit vectors that point outwards at each vertex, by the faces that meet there."""
    first, second, third = (points[mesh.faces[:, corner]] for corner in range(3))
    of_faces = np.zeros((len(mesh.faces) + 1, 3))
    of_faces[:-1] = np.cross(second - first, third - first)
    summed = of_faces[mesh.beside].sum(axis=0)
    lengths = np.sqrt(np.einsum("ij,ij->i", summed, summed))
    return np.asarray(summed / np.maximum(lengths, np.finfo(np.float64).tiny)[:, None])


def mean_of_neighbours(points: Points, mesh: Mesh) -> Points:
    """The mean place of the neighbours of each vertex."""
    padded = np.concatenate([points, np.zeros((1, 3))])
    number = (mesh.neighbours < len(points)).sum(axis=0)
    return np.asarray(padded[mesh.neighbours].sum(axis=0) / number[:, None])


def mean_length(points: Points, mesh: Mesh) -> float:
    """The mean length of the edges."""
    between = points[mesh.edges[:, 0]] - points[mesh.edges[:, 1]]
    return float(np.linalg.norm(between, axis=1).mean())


def inside(points: Points, faces: Faces, shape: tuple[int, int, int]) -> Bools:
    """Voxels of a grid whose centres, at whole numbers, a surface winds around.

    Each column of voxels is followed along the last axis: the surface is entered where a face looks
    back, and left where one looks on.
    """
    aside = points - [*_ASIDE, 0.0]
    face, x, y = _columns_below(aside, faces, shape)
    crossing, sign = _crossings(aside, faces[face], x, y)
    level = np.clip(np.ceil(crossing), 0, shape[2]).astype(np.int64)
    changes = np.zeros((*shape[:2], shape[2] + 1), np.int16)
    np.add.at(changes, (x, y, level), sign)
    winding = np.cumsum(changes[:, :, :-1], axis=2, dtype=np.int16)
    return np.asarray(winding > 0)


def _columns_below(
    points: Points, faces: Faces, shape: tuple[int, int, int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Pairs of a face and a column of voxels, (x, y), that runs through it."""
    corners = points[faces][:, :, :2]
    last = np.array(shape[:2]) - 1
    low = np.maximum(np.ceil(corners.min(axis=1)), 0).astype(np.int64)
    high = np.minimum(np.floor(corners.max(axis=1)), last).astype(np.int64)
    sizes = np.maximum(high - low + 1, 0)
    numbers = sizes.prod(axis=1)
    face = np.repeat(np.arange(len(faces)), numbers)
    within = np.arange(len(face)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
    x = low[face, 0] + within // sizes[face, 1]
    y = low[face, 1] + within % sizes[face, 1]
    area = _doubled_area(corners)
    is_hit = area[face] != 0
    for first, second in itertools.pairwise((0, 1, 2, 0)):
        to_left = _is_left(points, faces[face, first], faces[face, second], x, y)
        is_hit &= to_left == (area[face] > 0)
    return face[is_hit], x[is_hit], y[is_hit]


def _is_left(
    points: Points,
    first: npt.NDArray[np.int64],
    second: npt.NDArray[np.int64],
    x: npt.NDArray[np.int64],
    y: npt.NDArray[np.int64],
) -> Bools:
    """Whether a place lies to the left of an edge; computed alike for both faces of the edge, so
    that it lies in one of them, never in both or none.
    """
    low = points[np.minimum(first, second)]
    high = points[np.maximum(first, second)]
    along = high - low
    cross = along[:, 0] * (y - low[:, 1]) - along[:, 1] * (x - low[:, 0])
    return np.asarray((cross >= 0) == (first < second))


def _crossings(
    points: Points, faces: Faces, x: npt.NDArray[np.int64], y: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int16]]:
    """Where columns of voxels run through faces, along the last axis, and +1 where they enter, -1
    where they leave.
    """
    corners = points[faces]
    first = corners[:, 0]
    normal = np.cross(corners[:, 1] - first, corners[:, 2] - first)
    slope = normal[:, 0] * (x - first[:, 0]) + normal[:, 1] * (y - first[:, 1])
    height = first[:, 2] - slope / normal[:, 2]
    bounded = np.clip(height, corners[:, :, 2].min(axis=1), corners[:, :, 2].max(axis=1))
    return bounded, np.where(normal[:, 2] < 0, 1, -1).astype(np.int16)


def _doubled_area(corners: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Twice the area of triangles in the plane, positive where they turn to the left."""
    first = corners[:, 1] - corners[:, 0]
    second = corners[:, 2] - corners[:, 0]
    return np.asarray(first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0])


def _icosahedron() -> tuple[Points, Faces]:
    """Twelve vertices, at the corners of three golden rectangles, and twenty faces."""
    plane = [(0.0, a, b * _GOLDEN) for a in (-1, 1) for b in (-1, 1)]
    points = np.array([np.roll(corner, turn) for turn in range(3) for corner in plane])
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    near = np.isclose(apart, 2.0)
    threes = itertools.combinations(range(len(points)), 3)
    faces = np.array([(a, b, c) for a, b, c in threes if near[a, b] and near[b, c] and near[a, c]])
    turned = np.linalg.det(points[faces]) < 0
    faces[turned] = faces[turned][:, ::-1]
    return points / np.linalg.norm(points, axis=1, keepdims=True), faces


def _subdivided(points: Points, faces: Faces) -> tuple[Points, Faces]:
    """Cut every triangle in four at the middles of its edges, which move out to the sphere."""
    edges = _edges(faces)
    middles = points[edges].mean(axis=1)
    middles /= np.linalg.norm(middles, axis=1, keepdims=True)
    number_of = {(int(a), int(b)): len(points) + n for n, (a, b) in enumerate(edges)}
    cut = []
    for corners in faces.tolist():
        pairs = zip(corners, (*corners[1:], corners[0]), strict=True)
        ab, bc, ca = (number_of[min(pair), max(pair)] for pair in pairs)
        a, b, c = corners
        cut += [(a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca)]
    return np.concatenate([points, middles]), np.array(cut)


def _edges(faces: Faces) -> npt.NDArray[np.int64]:
    """Edges of the faces, each once, the lower number first."""
    pairs = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    return np.unique(np.sort(pairs, axis=1), axis=0)


def _grouped(pairs: npt.NDArray[np.int64], vertices: int, nobody: int) -> npt.NDArray[np.int64]:
    """Shape (6, vertices): second numbers of pairs by their first one, filled up with `nobody`."""
    ordered = pairs[np.argsort(pairs[:, 0], kind="stable")]
    numbers = np.bincount(ordered[:, 0], minlength=vertices)
    place = np.arange(len(ordered)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
    found = np.full((_MOST_NEIGHBOURS, vertices), nobody)
    found[place, ordered[:, 0]] = ordered[:, 1]
    return found
