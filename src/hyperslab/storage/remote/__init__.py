"""Objects elsewhere, through fsspec."""
