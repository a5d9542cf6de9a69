"""What happened with the clients of a daemon, in numbers."""

from msgspec import Struct


class ClientCounters(Struct):
    """What happened with clients since the start."""

    accepted: int = 0
    spread: int = 0
    """Accepted clients that speak Spread's protocol."""
    edges: int = 0
    """Connections of edges that were taken."""
    refused: int = 0
    successors: int = 0
    """Clients that had to wait for the end of the session with their name."""
    strangers: int = 0
    """Refused because the access list has nobody for what they showed."""
    not_allowed: int = 0
    """Requests before a session that the access list does not allow."""
    tls_failures: int = 0
    """Connections that were not, or did not become, TLS."""
    handshake_rests: int = 0
    """How often newcomers for TLS had to wait, because there were too many."""
    bad_frames: int = 0
    slow_receivers: int = 0
    over_budget: int = 0
    """Slow receivers that were cut off because too much waited for all clients together."""
    stalled_frames: int = 0
    greeting_timeouts: int = 0
    crowded_out: int = 0
    """Closed to make room, before their greeting or their last words were complete."""
    accept_errors: int = 0
    mistakes: int = 0
    """Clients cut off because the daemon did something wrong while it served them."""
