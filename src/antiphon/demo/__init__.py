"""The demo: a whole wide-area cluster in one process, narrated. Where it plays, who plays, what is told, and
how it looks."""
