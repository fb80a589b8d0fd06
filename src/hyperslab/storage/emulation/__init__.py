"""Emulated tiers: directories that are as slow as another storage, on this host."""
