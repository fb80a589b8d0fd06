"""Worker processes of our own."""
