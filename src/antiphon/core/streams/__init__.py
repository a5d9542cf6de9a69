"""Connections between daemons without their sockets: which of them are kept, and what goes over them."""
