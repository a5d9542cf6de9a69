"""Edges: daemons in no view, which get their groups from an attachment and send through it."""
