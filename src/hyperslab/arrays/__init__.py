"""Arrays in files as records, and their geometry."""
