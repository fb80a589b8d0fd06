"""Containers with the BIDS Apps interface, by Apptainer, Singularity, Docker or Podman."""
