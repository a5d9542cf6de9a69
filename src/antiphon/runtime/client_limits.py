"""How many clients may be in which phase of their lives, and for how long."""

import resource

GREETINGS_MAX = 2_048
"""Connections without a session. Somebody who leaves hundreds half open keeps nobody waiting with them."""
GREETINGS_SHARE = 4
"""They take at most one descriptor in so many that the process may have: the others are for sessions."""
TLS_GREETINGS_MAX = 512
"""The same over TLS: a handshake that was begun takes 60 KB."""
GREETING_TIMEOUT_US = 10_000_000
GREETING_GRACE_US = 1_000_000
"""A connection without a session is not closed to make room for others before this."""
GREETING_OUTPUT_MAX_BYTES = 4 * 1024 * 1024
"""Answers waiting for a client without a session."""
GREETING_READ_BYTES = 16 * 1024
"""Read at once from a client without a session: a few greetings."""
EDGE_READ_BYTES = 256 * 1024
"""Read at once from an edge."""
HANDSHAKES_PER_S = 200
"""TLS connections that are begun: each takes a millisecond of the daemon's thread, more than the next hundred
messages. Others wait in the listener's queue; those of other places do not."""
HANDSHAKES_REST_US = 50_000
"""How long they wait at a time."""
FAREWELLS_MAX = 256
FAREWELL_TIMEOUT_US = 3_000_000
"""How long the last words may take to be read."""
SLOW_GRACE_US = 1_000_000
"""A slow receiver is not cut off sooner than this (or `slow_patience_ms`) after its warning, nor while others
wait for it: more than the hard limit may come in one turn afterwards, which is not the receiver's fault."""
LOOK_US = 25_000
"""How often the node is told what a slow receiver has read."""
LOOKS_MAX = 256
"""Slow receivers that are looked at in one turn; if there are more, each is looked at more rarely."""
ACCEPTS_PER_WAKE = 64
ACCEPT_PAUSE_US = 500_000
"""How long to wait after the system had no room for a connection."""


def greetings_max() -> int:
    """How many connections without TLS may be without a session."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(GREETINGS_MAX, descriptors // GREETINGS_SHARE)
