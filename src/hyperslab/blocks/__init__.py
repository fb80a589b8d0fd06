"""Blocks in memory: read from files, and written to them."""
