"""Conventions: what attributes and coordinates of an array mean, in every format that has them."""
