"""Model: how long a trial takes at least, by what its storage was probed to do."""
