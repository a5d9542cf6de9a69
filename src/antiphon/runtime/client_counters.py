"""What happened with the clients of a daemon, in numbers."""

from msgspec import Struct


class ClientCounters(Struct):
    """What happened with clients since the start."""

    accepted: int = 0
    spread: int = 0
    """Accepted clients that speak Spread's protocol."""
    refused: int = 0
    successors: int = 0
    """Clients that had to wait for the end of the session with their name."""
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
