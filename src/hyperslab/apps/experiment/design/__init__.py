"""Design of an experiment: its spec, what that varies, and the cells and trials that come of it."""
