"""Ordering: when a bundle may be delivered, and when every member is known to have it."""
