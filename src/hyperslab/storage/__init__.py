"""Where files are, and how they get their names."""
