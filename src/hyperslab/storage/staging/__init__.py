"""Staging: files on a fast tier on their way from or to a slower one, while a run goes on."""
