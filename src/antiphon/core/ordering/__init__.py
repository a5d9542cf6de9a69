"""Ordering: when a bundle may be delivered, and when everybody is known to have it."""
