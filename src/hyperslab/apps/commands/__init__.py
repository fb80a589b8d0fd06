"""Commands over files as tasks: what is asked for, and how it is run."""
