"""Every bound in the system, with its unit and its reason.

A limit that a deployment may change is a field of `config.Settings`, with its default taken from here.
"""

# Time -----------------------------------------------------------------------------------------------------
NEVER_US = (1 << 63) - 1
"""Later than any clock shows."""

# Names ----------------------------------------------------------------------------------------------------
GROUP_NAME_MAX_BYTES = 31
"""As in Spread, so that Spread clients can address every group."""
SESSION_NAME_MAX_BYTES = 10
"""The part that the client chooses; the full private name is `#session#daemon` and fits a group name."""
DAEMON_NAME_MAX_BYTES = 19
GROUPS_PER_MESSAGE_MAX = 100

# Topology -------------------------------------------------------------------------------------------------
SITES_MAX = 64
"""Destination sets are 64-bit masks; the seeds aim at several tens of sites."""
DAEMONS_PER_SITE_MAX = 64
"""A site's representative speaks for it with each of its other daemons directly."""
DAEMONS_MAX = 512
"""In all sites together: half of what the low 10 bits of an lts can tell apart, and what is known of each
other daemon still fits into a few packets."""

# Messages and bundles -------------------------------------------------------------------------------------
MESSAGE_MAX_BYTES = 16 * 1024 * 1024
BUNDLE_TARGET_BYTES = 60_000
"""A bundle is closed when it reaches this: best measured throughput, and one GSO send (65,507) holds it."""
BUNDLE_MESSAGES_MAX = 8_192
FRAME_MAX_BYTES = MESSAGE_MAX_BYTES + 16_384
"""The largest frame on a client connection: one message of the largest size with its header and names."""
BUNDLE_MAX_BYTES = FRAME_MAX_BYTES + 4_096
"""The largest bundle between daemons: the largest frame, sent again inside another bundle or two."""
CONTROL_FRAME_MAX_BYTES = 1024 * 1024
"""Control frames carry names and lists of members, never payloads."""

# Batches --------------------------------------------------------------------------------------------------
BATCH_QUERY_MAX_BYTES = 200
"""Room for an identifier, or for a name that says something."""
BATCH_PARTITIONS_MAX = 100_000
"""Parts of one batch: ten times what large clusters use."""
BATCH_NUMBER_MAX = 10**18 - 1
"""Batches of a query and messages of a part: 18 digits."""
BATCHES_KEPT = 400
"""Batches of a query of which a receiver knows what it has had, so that a daily result can be repeated or
filled in for more than a year; of as many ranges of batches before them it knows only that they came."""
BATCH_QUERIES_KEPT = 1_024
"""Queries whose batches a receiver remembers. When there are more, the least recent one is forgotten, first
those with a single batch: a job without a name is a query of its own."""
BATCH_OLDER_RANGES_KEPT = 65_536
"""Ranges of messages that it remembers in all of them, about 20 MB: one for each part, more where some were
lost. When there are more, only the most recent batch of each query, the one that crashes repeat, is kept."""
BATCH_RANGES_KEPT = 262_144
"""Ranges of messages in those most recent batches: more than the parts of the largest batch. When there are
more, the least recent queries are forgotten."""

# Packets --------------------------------------------------------------------------------------------------
PACKET_MIN_BYTES = 512
PACKET_DEFAULT_BYTES = 1_400
"""Fits every path seen in practice (Ethernet, tunnels, PPPoE) without IP fragments."""
PACKET_MAX_BYTES = 60_000
COUNTER_MAX = (1 << 62) - 1
"""The greatest lts or number that is believed: at a billion a second it lasts for a century, and what we
count on from there still fits its field."""
TRAIN_MAX_BYTES = 65_000
TRAIN_MAX_PACKETS = 64
"""What one GSO send may carry (the kernel takes 128 segments and 65,507 bytes)."""
NACK_RANGES_MAX = 64
"""Ranges in one nack; more missing packets are asked for in the next."""

# Links ----------------------------------------------------------------------------------------------------
LINK_WINDOW_MAX_BYTES = 8 * 1024 * 1024
"""Unacknowledged bytes on one link, the paper's maximum window."""
LINK_MISSING_MAX = 65_536
"""Packets a receiver tracks as missing; a gap beyond that is refused, the sender repeats it later."""
LINK_UNRELIABLE_QUEUE_BYTES = 2 * 1024 * 1024
"""Unreliable traffic waiting for one link; beyond it the newest is dropped and counted."""

# Rings ----------------------------------------------------------------------------------------------------
RING_ROUND_PACKETS = 768
"""Packets that all members together send while the token goes round once: a MiB, which fits the socket of a
member that is busy meanwhile."""
RING_MEMBER_PACKETS = 384
"""Packets that one member sends in one round."""
RING_OPEN_PACKETS = 4_096
"""Packets on a ring that not everybody is known to have; beyond it nothing new is sent."""
RING_REQUESTS_MAX = 64
"""Ranges of missing packets on one token; more are asked for when it comes again."""

# Connections between daemons --------------------------------------------------------------------------------
STREAM_PACKET_BYTES = 32 * 1024
"""Packets on a TCP link: few for much data, and still signs of life several times a second on a slow path."""
STREAM_HANDED_BYTES = 256 * 1024
"""What a TCP link hands over at a time; the rest waits in the link, where its limits are."""
STREAM_OUTPUT_MAX_BYTES = 512 * 1024
"""What waits for one connection; beyond it packets that belong to no link are dropped and counted."""
STREAM_STRANGERS_MAX = 64
"""Connections whose other side has not said yet who it is; beyond it the oldest is closed."""

# Ordering -------------------------------------------------------------------------------------------------
UNSTABLE_MAX_BYTES = 16 * 1024 * 1024
"""Own bundles not yet known to be everywhere; beyond it a daemon stops reading its clients."""
REASSEMBLY_MAX_BYTES = 4 * (UNSTABLE_MAX_BYTES + FRAME_MAX_BYTES)
"""Fragments of incomplete bundles of one source: more than a correct source can have under way."""
UNRELIABLE_REASSEMBLY_MAX_BYTES = 32 * 1024 * 1024
UNRELIABLE_REASSEMBLY_TIMEOUT_US = 1_000_000
UNRELIABLE_MEMORY = 1_024
"""Numbers remembered per source to drop duplicates of unreliable bundles."""

# Membership -----------------------------------------------------------------------------------------------
OUTSTANDING_MAX = 1 << 22
"""Bundles of one source between the slowest and the fastest of its receivers: `UNSTABLE_MAX_BYTES` of the
smallest ones are twenty times fewer."""
ROUNDS_KEPT = 64
"""Membership rounds that a daemon remembers, for `antiphon explain`."""

# Sessions -------------------------------------------------------------------------------------------------
SESSIONS_MAX = 10_000
GROUPS_PER_SESSION_MAX = 1_000
SESSION_INPUT_MAX_BYTES = 512 * 1024
"""Bundles of one session that wait to be ordered; beyond it its socket is not read."""
SESSION_OUTPUT_SOFT_BYTES = 8 * 1024 * 1024
"""Output waiting for one session at which it counts as slow: it is warned, and those who send to it wait or
its unreliable messages are dropped, until half of this waits."""
SESSION_OUTPUT_HARD_BYTES = 96 * 1024 * 1024
"""Output waiting for one session at which it is disconnected as a slow receiver."""
SLOW_PATIENCE_US = 1_000_000
"""How long those who send to a slow session wait while it reads less than a step; after that only its own
queue grows."""
SLOW_OWN_PATIENCE_US = 50_000
"""The same for what the slow session sends to itself. A program that reads and sends in one thread cannot
read while its send waits, so that waiting longer brings nothing."""
SLOW_STEP = 16
"""A slow session that reads this part (a sixteenth) of its soft limit within the patience reads fast enough
to be waited for: half a MiB a second with the defaults."""
PRESSURE_SESSIONS_MAX = 24
"""Slow sessions in one announcement, which so fits the smallest packet. For more of them at one daemon, only
senders of the same daemon wait."""
PRESSURE_RENEW_US = 250_000
"""How often a daemon repeats which of its sessions are slow."""
PRESSURE_VALID_US = 1_000_000
"""How long such an announcement is believed: three may be late in a row."""
PRESSURE_PAUSE_US = 5_000
"""Between two announcements of one daemon: sessions that become slow in quick succession share one."""
PRIORITY_TURNS = 16
"""So many bundles of higher priority may be taken in a row while one of lower priority waits."""
PRIORITY_SHARE = 8
"""While a session of higher priority is active, those of lower priority go on only as long as less than this
part (an eighth) of `unstable_bytes` is under way: what is under way nobody can overtake."""
PRIORITY_QUEUE_BYTES = 128 * 1024
"""And as long as no more than this waits for any link."""
PRIORITY_ACTIVE_US = 1_000_000
"""A session is active for so long after it has sent something."""
CLIENT_EVENTS_MAX_BYTES = 8 * 1024 * 1024
"""Undelivered events in a client library; beyond it the library stops reading its socket."""
