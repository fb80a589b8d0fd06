"""What people look at of operations on files."""

META = "files"
"Name of their numbers in the meta of a trace, where they were counted."
