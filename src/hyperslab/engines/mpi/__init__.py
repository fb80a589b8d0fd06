"""Ranks of MPI: a world that the driver starts, or one that the user has started."""
