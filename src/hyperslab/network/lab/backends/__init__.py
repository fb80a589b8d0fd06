"""Backends: what can make a link slow, distant or lossy on this host."""
