"""From files to blocks in memory, and back."""
