"""What people look at of operations on files."""
