"""The operating system: clocks, keys, processes."""
