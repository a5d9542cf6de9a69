"""Finding other daemons of a cluster by its name, and agreeing with them on numbers."""
