"""The three engines of Dask."""
