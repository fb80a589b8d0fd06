"""Three maps of a time series: how fast every voxel's signal rises, how surely, and what is left.

    hyperslab run examples/slope.py:fit bold.nii.gz -o maps --format nii.gz

writes maps/bold_slope.nii.gz, maps/bold_t.nii.gz and maps/bold_residual.nii.gz.
"""

import numpy as np


def fit(block: np.ndarray, tr: float = 1.0) -> dict[str, np.ndarray]:
    """A straight line through every voxel's time series (the last axis), by least squares.

    `tr` is the time between two volumes in seconds. Returns the slope per second, its t value, and
    the standard deviation of what the line leaves.
    """
    volumes = block.shape[-1]
    time = tr * (np.arange(volumes) - (volumes - 1) / 2)
    series = block.astype(float)
    slope = series @ time / (time @ time)
    line = series.mean(axis=-1, keepdims=True) + slope[..., np.newaxis] * time
    residual = np.sqrt(((series - line) ** 2).sum(axis=-1) / (volumes - 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = slope * np.sqrt(time @ time) / residual
    t[residual == 0] = 0
    maps = {"slope": slope, "t": t, "residual": residual}
    return {name: values.astype(np.float32) for name, values in maps.items()}
