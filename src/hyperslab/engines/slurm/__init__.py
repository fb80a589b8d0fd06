"""Batches as elements of Slurm's job arrays."""
