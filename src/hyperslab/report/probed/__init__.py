"""What people look at of a probe: lines for the terminal, a page with the curves."""
