"""Answers: what the recorded trials of an experiment mean, and how sure that is."""
