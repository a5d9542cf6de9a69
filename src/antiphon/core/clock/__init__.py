"""What time it is, and how wrong that may be."""
