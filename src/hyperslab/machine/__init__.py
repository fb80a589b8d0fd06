"""What this process may use of its machine: processors, memory, clocks, load, Java."""
