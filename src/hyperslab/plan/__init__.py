"""What is to be done, and what came of it."""
