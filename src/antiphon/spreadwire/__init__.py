"""The Spread client protocol, spoken by our daemon, and its configuration file."""
