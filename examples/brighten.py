"""Functions of a user: what `hyperslab run examples/brighten.py:NAME` takes."""

import numpy as np

import hyperslab


def brighten(block: np.ndarray, gain: float = 1.5) -> np.ndarray:
    """Scale grey values and keep their dtype."""
    return np.clip(block * gain, 0, 255).astype(block.dtype)


def inside(block: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Keep the voxels where another volume is not zero."""
    return np.where(mask > 0, block, 0).astype(block.dtype)


head_volume = hyperslab.Fold(
    lift=lambda block, threshold=20: int(np.count_nonzero(block > threshold)),
    merge=lambda a, b: a + b,
    finish=lambda voxels: {"voxels": voxels, "millilitres": voxels / 1000},
)
"""Voxels brighter than a threshold: a reduction of all blocks to one value (of 1 mm voxels, in
millilitres).
"""
