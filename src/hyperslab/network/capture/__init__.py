"""Captures of packets, read as the messages that Dask has sent."""
