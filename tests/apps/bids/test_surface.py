"""Voxels inside of surfaces, compared with what is known of spheres."""

from __future__ import annotations

import numpy as np
import pytest

from hyperslab.apps.bids.surface import inside, mean_length, mean_of_neighbours, normals, sphere
from hyperslab.arrays import Array


def ball(shape: tuple[int, int, int], centre: Array, radius: float) -> Array:
    grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1)
    return np.asarray(np.linalg.norm(grid - centre, axis=-1) <= radius)


def test_a_sphere_of_triangles() -> None:
    points, mesh = sphere(2)
    assert points.shape == (162, 3)
    assert mesh.faces.shape == (320, 3)
    assert len(mesh.edges) == 480
    assert np.allclose(np.linalg.norm(points, axis=1), 1)
    assert np.allclose(normals(points, mesh), points, atol=0.05)
    degrees = (mesh.neighbours < len(points)).sum(axis=0)
    assert sorted(set(degrees.tolist())) == [5, 6]
    assert (degrees == 5).sum() == 12
    for vertex in (0, 11, 12, 161):
        found = {int(n) for n in mesh.neighbours[:, vertex] if n < len(points)}
        meeting = mesh.faces[[n for n in mesh.beside[:, vertex] if n < len(mesh.faces)]]
        assert found == set(meeting.ravel().tolist()) - {vertex}
        middle = points[sorted(found)].mean(axis=0)
        assert np.allclose(mean_of_neighbours(points, mesh)[vertex], middle)
    assert mean_length(3 * points, mesh) == pytest.approx(3 * mean_length(points, mesh))


@pytest.mark.parametrize("centre", [(20, 20, 20), (19.5, 20.25, 18.1), (3, 20, 38), (20, -4, 20)])
def test_voxels_inside_of_a_sphere(centre: tuple[float, float, float]) -> None:
    """Also of one that goes over the edge of the grid; flat triangles lie a little within it."""
    points, mesh = sphere(4)
    found = inside(np.array(centre) + 12 * points, mesh.faces, (41, 42, 40))
    assert not (found & ~ball((41, 42, 40), np.array(centre), 12)).any()
    assert not (ball((41, 42, 40), np.array(centre), 11.9) & ~found).any()


def test_a_surface_through_the_centres_of_voxels_leaves_no_hole() -> None:
    """Faces, edges and corners at whole numbers: a column belongs to one of the faces beside it."""
    corners = np.array([[x, y, z] for x in (2, 6) for y in (2, 6) for z in (2, 6)], float)
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = np.array([f for a, b, c, d in quads for f in ((a, b, c), (a, c, d))])
    found = inside(corners, faces, (9, 9, 9))
    assert found[3:6, 3:6, 3:6].all()
    assert found.sum() == 4**3
    assert found.any(axis=(1, 2)).sum() == 4


def test_surfaces_that_lie_over_each_other_leave_no_hole() -> None:
    points, mesh = sphere(2)
    both = np.concatenate([8 * points + [12, 12, 12], 8 * points + [16, 12, 12]])
    faces = np.concatenate([mesh.faces, mesh.faces + len(points)])
    found = inside(both, faces, (30, 24, 24))
    one = inside(both, mesh.faces, (30, 24, 24))
    other = inside(both, mesh.faces + len(points), (30, 24, 24))
    assert (one & other).any()
    assert np.array_equal(found, one | other)
