"""Daemon membership: which daemons are together, and what they owe one another when that changes."""
