"""What is built on runs."""
