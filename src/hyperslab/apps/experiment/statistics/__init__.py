"""Statistics: intervals, tests and slopes of few replicates, and numbers in words with them."""
