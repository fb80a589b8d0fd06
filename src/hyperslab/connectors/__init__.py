"""Arrays where their users already are: as Dask arrays, and as datasets of xarray."""
