"""Trials: prepared, run one after the other, each a process of its own, and recorded."""
