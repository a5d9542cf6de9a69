"""A durable, ordered log of groups, served over Arrow Flight."""
