"""Scratch: directories for temporary files whose names cost nothing, on a storage where they do."""
