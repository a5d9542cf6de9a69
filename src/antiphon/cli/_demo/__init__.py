"""The parts of the demo: where it plays, who plays, what is told, and how it looks."""
