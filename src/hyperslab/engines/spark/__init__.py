"""The engine of Spark."""
