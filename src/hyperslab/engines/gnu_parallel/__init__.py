"""Tasks by GNU Parallel: batches as jobs, on this host or by ssh on others."""
