"""Experiments: factors varied around a baseline, in random order, repeated; and what came of it."""
