"""The overlay: who is connected to whom, the tree of each source site, and what travels along it."""
