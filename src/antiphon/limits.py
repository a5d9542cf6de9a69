"""Every bound in the system, with its unit and its reason.

A limit that a deployment may change is a field of `config.Settings`, with its default taken from here.
"""

# Time -----------------------------------------------------------------------------------------------------
NEVER_US = (1 << 63) - 1
"""Later than any clock shows."""

# Names ----------------------------------------------------------------------------------------------------
GROUP_NAME_MAX_BYTES = 31
"""The limit of Spread, so that Spread clients can address every group."""
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
GATHER_MAX_BYTES = 16 * 1024
"""A daemon gathers bundles of a session up to this size: to copy larger ones costs as much as it saves."""
GATHER_SPAN_US = 1_000
"""How much later than the first bundle another one may have been begun that is gathered with it: by so much,
at most, the time of sending of a gathered message is too early."""
FRAME_MAX_BYTES = MESSAGE_MAX_BYTES + 16_384
"""The largest frame on a client connection: one message of the largest size with its header and names."""
BUNDLE_MAX_BYTES = FRAME_MAX_BYTES + 4_096
"""The largest bundle between daemons: the largest frame, sent again inside another bundle or two."""
EXTENSIONS_MAX_BYTES = 4_096
"""All extensions of one bundle's header: a causal history with three entries of 20 bytes for each of 64 sites
fits, and the largest message with its header, names and extensions is still no larger than a frame may be."""
HISTORY_MAX_BYTES = 2_048
"""The causal history of one bundle, some 130 causes. One with more names the newest of them, and instead of
the others a floor: then it is delivered no later than an agreed bundle, and not much earlier."""
PAST_CAUSES_MAX = 1_024
"""Causes that a daemon keeps of one session's past; of more than these, older ones become a floor, too."""
PAST_SENDERS_MAX = 256
"""Senders whose newest bundles a session has got since its past was last put together."""
CONTROL_FRAME_MAX_BYTES = 1024 * 1024
"""Control frames carry names and lists of members, never payloads."""
SENT_MAX_US = 7_258_118_399_999_999
"""The last microsecond of the year 2199: the latest time that a message can have been sent at. Every common
representation of a time, also one in nanoseconds, can hold it, so that no reader fails at a wrong clock."""

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
PACKET_BASE_BYTES = 1_200
"""A link between sites starts with packets of this size (RFC 8899, 5.1.2) and looks for larger ones that get
through. Daemons for which not even these get through do not work together."""
PACKET_MAX_BYTES = 61_440
"""A datagram has 65,507 bytes at most. This holds a bundle of `BUNDLE_TARGET_BYTES` with its header and its
place on a link, so that the bundles of a flood travel whole where the path carries them."""
PACKET_PROBES_MAX = 3
"""Probes of one size that are not answered before the path counts as too narrow (MAX_PROBES of RFC 8899)."""
COUNTER_MAX = (1 << 62) - 1
"""The greatest lts or number that is believed: at a billion a second it lasts for a century, and what we
count on from there still fits its field."""
CLOCK_DRIFT_MAX_PPM = 200
"""By how many millionths a monotonic clock may run fast or slow: the bounds of `core.clock` rest on it. The
crystals of computers are specified with 100 at most."""
CLOCK_REFERENCE_ERROR_US = 1_000
"""The error of a reference's system clock, unless its configuration says another one: NTP over the public
Internet keeps to it, over a LAN or with GPS it is far better."""
CLOCK_ERROR_MAX_US = 1_000_000
"""Time of a reference whose error bound is greater is given up: after a lost reference that takes 83 minutes.
No packet may say more."""
LTS_LEAD = 86_400_000_000 << 10
"""How far stamps of others may be ahead at once: a day, if a Lamport clock counted every microsecond. Their
low 10 bits are a daemon's number. Greater jumps are honest, too, when a daemon returns whose clock was
right or wrong by years; those are believed after `PROOF_ROUNDS`."""
LTS_PER_US = 1 << 10
"""The fastest that a Lamport clock runs: a bundle each microsecond, ten times what a daemon can do."""
LTS_CEILING = COUNTER_MAX - (1 << 59)
"""No proof lifts a stamp beyond this (the year 2094 as the start of a clock): above it stamps count on with
time only. What is left lasts for 17 years of `LTS_PER_US`, and for centuries of any real load."""
LTS_START_MAX_US = (COUNTER_MAX - (1 << 60)) >> 10
"""The latest wall clock (the year 2077) that a Lamport clock starts from; a later one is folded into the
range."""
CLOCK_LEAD_US = 60_000_000
"""By so much the monotonic clock of another process may be ahead or behind at once. It is more when one of
the two machines was suspended or set back to a snapshot, which is believed after `PROOF_ROUNDS`."""
PROOF_ROUNDS = 2
"""How many times in a row a daemon must answer a question of ours, and show the same clocks, before a jump
that time does not explain is believed: one packet proves nothing."""
PROOF_RETRY_US = 100_000
"""A question that was not answered is asked again at the next such packet, but not more often than this. It
stays the same question: an answer to its first sending counts, however long its path."""
ROUND_TRIP_MAX_US = 60_000_000
"""A longer time between a packet and its answer was no round trip, and says nothing about the path."""
CLUSTER_KEYS_MAX = 2
"""Cluster keys that a daemon has at a time: the one in use, and the one that is to follow it."""
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
LINK_PIECES_MAX_BYTES = 1024 * 1024
"""Pieces of packets that are not complete, on one link; beyond it those of the newest packets are dropped,
and its sender repeats them later."""
LINK_UNRELIABLE_QUEUE_BYTES = 2 * 1024 * 1024
"""Unreliable traffic waiting for one link; beyond it the newest is dropped and counted."""

# Rings ----------------------------------------------------------------------------------------------------
RING_ROUND_PACKETS = 768
"""Packets that all members together send while the token goes round once: a MiB, which fits the socket of a
member that is busy meanwhile."""
RING_MEMBER_PACKETS = 384
"""Packets that one member sends in one round."""
RING_OPEN_PACKETS = 4_096
"""Packets on a ring that are not known to be at all members; beyond it nothing new is sent."""
RING_REQUESTS_MAX = 64
"""Ranges of missing packets on one token; more are asked for when it comes again."""

# Token sites ----------------------------------------------------------------------------------------------
SITE_WINDOW_START_PACKETS = 32
SITE_WINDOW_MIN_PACKETS = 4
SITE_WINDOW_MAX_PACKETS = 512
"""Packets of one member that no other has acknowledged: at first, after losses, and at most."""
SITE_OPEN_PACKETS = 2_048
"""Packets of one member that are not known to be at all others; beyond it the member sends nothing new."""
SITE_ANSWER_PACKETS = 256
"""Packets that are sent again because of one request; more are asked for in the next."""
SITE_SERIAL_LEAD = 1 << 20
"""Passes of the token that a member can have missed: more than happen until it counts as lost."""

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
ALLOWANCE_MIN_BYTES = 256 * 1024
"""The least of them at which it does, whatever was measured: four full bundles. On a path of 1 MB/s they take
a quarter of a second; a smaller floor would be less than a few messages of 100 KB."""
ALLOWANCE_RATE_ROUNDS = 8
"""The greatest rate at which bundles became everywhere counts for so many rounds at least, and"""
ALLOWANCE_RATE_US = 1_000_000
"""for so long: longer than a pause of a member that is none of the paths'. Where rounds take long, it"""
ALLOWANCE_RATE_MAX_US = 2_000_000
"""counts for two rounds, and for so long."""
ALLOWANCE_TIME_US = 10_000_000
"""How often a daemon that floods looks how long its bundles take without a queue: it costs about one round
in which the paths are half empty, as rarely as in BBR."""
REASSEMBLY_MAX_BYTES = 4 * (UNSTABLE_MAX_BYTES + FRAME_MAX_BYTES)
"""Fragments of incomplete bundles of one source: more than a correct source can have under way."""
UNRELIABLE_REASSEMBLY_MAX_BYTES = 32 * 1024 * 1024
UNRELIABLE_REASSEMBLY_TIMEOUT_US = 1_000_000
UNRELIABLE_MEMORY = 1_024
"""Numbers remembered per source to drop duplicates of unreliable bundles."""
ROLE_MIN_US = 1_000_000
"""From one change of a source's role to the next, and from the start of a view to the first: a change holds
the source's bundles back for a round trip, and a view that does not last needs none."""
ROLE_MIN_DELAYS = 8
"""The same, counted in delays to the closest active source: on long paths a change costs more."""
ROLE_BUSIER = 8
"""So many times as many bundles as a source itself the active ones must send before it becomes passive; with
less than half of that it becomes active again."""
LOOK_EVERY_US = 1_000
"""How often at most a daemon looks at the roles of sources: it does so while bundles go through it."""
PACE_PERCENT = 90
"""How much a daemon adds to its own clock of what that of another active source has gone on by while a bundle
was on its way from there: all of it would let clocks drive one another."""
ROLE_SILENT_GAPS = 21
"""After so many times the mean time between its messages a source counts as silent."""
ROLE_SAMPLES = 7
"""The k of the mean-shift detector (NAVTECH 5.4): so many samples make a mean, and shift it."""
ROLE_MARGIN_PERCENT = 20
"""By how much the time between messages must differ from the delay before a role is changed (NAVTECH 5.4)."""
PLACES_SPARE = 1 << 30
"""Between the last place of a view and those of bundles that have no ticket when it ends: a second of
`LTS_PER_US`, or a million bundles."""
AFTER_SOURCES_MAX = 100
"""Passive sources that an unreliable bundle names because their bundles come before it. With more it waits
until some of these are everywhere, so that a bundle's extensions keep to their limit."""
TICKETS_MAX = 16_384
"""Tickets that a daemon remembers before it holds its own bundles back; they are forgotten when everybody has
them."""
PLACED_RUNS_MAX = 65_536
"""Places that a daemon may tell at the end of a view."""
PLACES_AHEAD_MAX = 1 << 18
"""Rounds of the Lamport clock by which a ticket's place may be ahead of it; with `PLACES_SPARE` no place of a
view is later than those at its end."""
TICKET_RUNS_MAX = 4_096
"""Runs of consecutive numbers in one message with tickets; the rest goes into the next one."""

# Membership -----------------------------------------------------------------------------------------------
OUTSTANDING_MAX = 1 << 22
"""Bundles of one source between the slowest and the fastest of its receivers: `UNSTABLE_MAX_BYTES` of the
smallest ones are twenty times fewer."""
ROUNDS_KEPT = 64
"""Membership rounds that a daemon remembers, for `antiphon explain`."""

# Planned stop ---------------------------------------------------------------------------------------------
LEAVING_LASTS_US = 10_000_000
"""For how long a daemon that says that it leaves is left out of views. It is gone sooner, and its next
process is another one; a word that was made up in its name is forgotten."""
STOP_DRAIN_US = 1_000_000
"""How long a daemon that is told to stop waits at most, beyond its `suspect_ms`, until what its clients have
sent is everywhere, and again until the ends of their sessions are."""
STOP_LEAVE_US = 1_000_000
"""How long it waits at most, beyond the time in which daemons gather, until its neighbours have gone on
without it."""

# Standstill -----------------------------------------------------------------------------------------------
STALL_BUSY_BYTES_PER_S = 4 * 1024
"""While this much data comes in, what a daemon waits for may be behind it in the queue of a slow path: of a
modem, or of one that loses many packets and has a long round trip, somewhere on the way. The time of a
standstill does not count then."""
STALL_QUEUE_BYTES = 64 * 1024
"""While more than this waits on a link of ours, others may not have got what they must answer."""
STALL_BUSY_TIMES = 6
"""A standstill ends the view after so many times the usual patience at the latest, however much data is under
way."""
STALL_PATIENT_TIMES = 6
"""The patience with announcements and acknowledgements, as a multiple of `stall_ms`: a daemon that has
everything itself does not see how others come along, and one that lacks something finds out by itself."""
STALL_GROUPS_TIMES = 3
"""The patience with daemons that tell their groups after a merge: they have work to do before."""
STALL_TOLD_SHARE = 4
"""A standstill is told, in the status and in the log, after this part (a quarter) of the time after which it
ends the view."""
STANDSTILL_TOLD_US = 3_000_000
"""Log lines tell of messages that do not flow from then on: a change of the view takes less."""
STANDSTILL_LOOK_US = 500_000
"""How often a daemon looks for a standstill to report."""
STRIKES_MAX = 2
"""With so many standstills of views because of one daemon, it is left out of the next ones. A single one may
come of one bad packet, and the next view repairs what that has done."""
STRIKES_WITHIN_US = 600_000_000
"""Standstills that are farther apart are unrelated."""
STRIKE_TOLD_US = 30_000_000
"""How long a daemon announces to the others that it has given one of them a strike."""
EXCLUDED_US = 10_000_000
"""For how long a daemon is left out the first time; it doubles with each time, up to `EXCLUDED_MAX_US`. Each
attempt to work with it again may stop the others once more."""
EXCLUDED_MAX_US = 320_000_000
EXCLUSIONS_TOLD_MAX = 16
"""Daemons whose exclusion one daemon announces: stations must stay small. A daemon that would leave out more
leaves itself out."""
NONSENSE_MAX = 100
"""So many packets with contents that no daemon makes, under the seal of a neighbour, and it is left out. An
honest one sends none, whatever befalls it; one whose memory is failing may be of use for a while."""
NONSENSE_WITHIN_US = 600_000_000
"""What came in so long a time counts together."""
NONSENSE_PER_CONNECTION = 20
"""What came over a connection counts so often: it ends the connection, and with it the view."""
DAMPED_TOLD_MAX = 8
"""Daemons whose damping one daemon announces to the others; if more of a site flap, two stand for all."""
DAMPED_MAX_US = 3_600_000_000
"""The longest damping that can be configured, and be told of."""
TWIN_AFTER_US = 5_000_000
"""Two processes of one daemon that are heard in turns for so long run at the same time: a packet of one that
has ended is not under way for as long."""
TWIN_RETURNS = 6
"""The least number of turns for this conclusion."""
TWIN_OUT_US = 20_000_000
"""For how long a daemon that runs twice is left out after both processes were heard; while they are, this
begins anew again and again."""
# Slices ----------------------------------------------------------------------------------------------------
SLICE_STEPS = 1_024
"""Work that a daemon does before it looks for packets again and sends signs of life: members looked at, views
made, bundles delivered. Some 5 to 10 ms, far less than any neighbour's patience, also on a busy machine."""
GROUPS_PART_STEPS = 1_024
"""Groups and members in one of the messages in which a daemon tells them after a merge: some 60 KB, a few
milliseconds of work."""
DEPARTURES_STEPS = 1_024
"""Sessions that are over, and their memberships, in one bundle."""
READY_MAX = 16_384
"""Bundles that may wait to be delivered to clients in a later slice; beyond it slices grow, so that a daemon
that cannot keep up reads less from its neighbours and clients."""

# Sessions -------------------------------------------------------------------------------------------------
SESSIONS_MAX = 10_000
GROUPS_PER_SESSION_MAX = 16_384
"""Groups that one session may have joined: some programs written for Spread are in 12,000. One more is
refused; the connection of a Spread client, which has no word for a refusal, ends."""
LOCKS_PER_SESSION_MAX = 256
"""Locks that one session holds or waits for, in all of its groups; more are refused."""
LOCK_NAME_MAX_BYTES = 31
QUORUM_ATTEMPTS_MAX = 16
"""Attempts to decide about the quorum of a group that may have succeeded elsewhere; of more, the first two
count as one of which all members are needed."""
MINIMUM_MAX = 65_535
"""The greatest number of members that a session may wish for when it joins."""
SESSION_INPUT_MAX_BYTES = 512 * 1024
"""Bundles of one session that wait to be ordered; beyond it its socket is not read."""
SESSION_OUTPUT_SOFT_BYTES = 8 * 1024 * 1024
"""Output waiting for one session at which it counts as slow: it is warned, and those who send to it wait or
its unreliable messages are dropped, until half of this waits."""
SESSION_OUTPUT_HARD_BYTES = 96 * 1024 * 1024
"""Output waiting for one session at which it is disconnected as a slow receiver."""
CLIENTS_INPUT_MAX_BYTES = 128 * 1024 * 1024
"""Input of all clients together that is not ordered yet; beyond it clients are not read. Seven messages of
the largest size, and enough for two thousand clients in the middle of a usual bundle."""
CLIENTS_OUTPUT_MAX_BYTES = 512 * 1024 * 1024
"""Output that waits for all clients together, each frame counted once; beyond it those for whom most waits
are disconnected. Five clients at the limit of one, if they have no group in common."""
FRAME_PATIENCE_US = 2_000_000
"""How long a client may leave a frame where it is while others wait for the room that is kept for it."""
SLOW_PATIENCE_US = 1_000_000
"""How long the senders to a slow session wait while it reads less than a step; after that only its own
queue grows."""
SLOW_OWN_PATIENCE_US = 50_000
"""How long a slow session waits when it sends to itself. A program that reads and sends in one thread cannot
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
"""The time between two announcements of one daemon: sessions that become slow in quick succession share
one."""
PRIORITY_TURNS = 16
"""How many bundles of higher priority may be taken in a row while one of lower priority waits."""
PRIORITY_SHARE = 8
"""While a session of higher priority is active, those of lower priority go on only as long as less than this
part (an eighth) of `unstable_bytes`, and three quarters of the allowance, is under way: what is under way
cannot be overtaken."""
PRIORITY_QUEUE_BYTES = 128 * 1024
"""Sessions of lower priority also stop while more than this waits for any link."""
PRIORITY_ACTIVE_US = 1_000_000
"""A session is active for so long after it has sent something."""
CLIENT_EVENTS_MAX_BYTES = 8 * 1024 * 1024
"""Undelivered events in a client library; beyond it the library stops reading its socket."""

# Journals -------------------------------------------------------------------------------------------------
JOURNAL_STREAMS_MAX = 64
"""Streams of rows that a journal's server has open at a time, half of them for one host: each holds a thread,
and one that is not read about 4 MB."""
JOURNAL_STREAM_BYTES_MAX = 128 * 1024 * 1024
"""Bytes of the pieces that all of them are sending, half of them for one host: 2 MiB each, and some pieces of
one large message."""

# Calls ----------------------------------------------------------------------------------------------------
CALLS_WAITING_MAX = 8_192
"""Calls that one session waits for at a time; a further one is refused."""
CALL_TIMEOUT_MAX_S = 300
"""The longest time for which a caller may wait: what members remember is older than any call that waits."""
CALL_MEMORY_AGE_US = 900_000_000
"""A caller that was silent for so long may be forgotten when there are too many."""
CALL_CALLERS_MAX = 16_384
"""Callers that a member remembers for one group; the calls of a further one are refused."""
CALL_ANSWERS_MAX = 16_384
CALL_ANSWERS_MAX_BYTES = 8 * 1024 * 1024
"""Answers that a member remembers for one group; beyond it the oldest are forgotten, and their calls refused
when they are repeated."""
CALL_TOLD_MAX_BYTES = 1024 * 1024
"""Payloads of answers, and those of calls that wait, in what a member tells one that comes later."""
CALL_TELLING_MAX_BYTES = 8 * 1024 * 1024
"""A memory that is longer than this is not read."""
CALLS_OPEN_MAX = 16_384
CALLS_OPEN_MAX_BYTES = 16 * 1024 * 1024
"""Calls of one group that wait for an answer, in a member's library; further ones are refused."""
CALLS_OWED_MAX = 4_096
"""Repeated calls of one group whose answers are being told once more, which all members note until that has
been done; beyond it the oldest are not told by another member if the one that was to tell is lost."""
CALL_MEMORY_WAIT_S = 2
"""How long a new holder of a handler waits for members that do not tell what they remember: they may be of
programs that know nothing of calls."""
CALL_FORMER_GROUPS_MAX = 16
"""Groups that a session has left, of whose calls it remembers what it did: it may join them again."""

# Edges ----------------------------------------------------------------------------------------------------
EDGES_MAX = 64
"""Edges that attach to one daemon, or to one edge; further ones are refused with a reason. Each costs its
attachment one copy of what it listens to."""
EDGE_GROUPS_MAX = 16_384
"""Groups that one edge listens to, for its own clients and the edges behind it."""
EDGE_SPONSORED_MAX = 4_096
"""Sessions in whose name an attachment sends for one edge."""
FEED_RETAIN_BYTES = 64 * 1024 * 1024
FEED_RETAIN_US = 30_000_000
"""What a daemon keeps of its feed, so that an edge that has lost its attachment, or is slow, goes on without
a gap: no more bytes, and nothing older. A group stays in the feed for the second after the last edge has lost
interest."""
FEED_PARTS_MAX = 256
"""Daemon views whose place in the feed is remembered."""
EDGE_OUTPUT_BYTES = 1024 * 1024
"""Output that waits for an edge at which it is fed no more until a quarter of this waits: the feed keeps the
rest for a while, and tells a gap if it is too long."""
EDGE_BEAT_US = 500_000
EDGE_RESUME_US = 5_000_000
"""An edge may come from an attachment that is ahead: for so long, a daemon waits until it has installed the
view that the edge comes from, before it tells a gap."""
EDGE_RECEIVERS_US = 5_000_000
"""How often the numbers of receivers are told on, at most."""
EDGE_QUEUE_BYTES = 8 * 1024 * 1024
"""Bundles of clients that wait at an edge for its attachment; beyond it the edge reads no more from them."""
EDGE_DIAL_FIRST_US = 100_000
EDGE_DIAL_MOST_US = 5_000_000
"""How long an edge leaves an address alone that has failed: twice as long with each failure in a row. Its
connection counts as none if it lasted for the longest of these times."""
EDGE_ANSWER_US = 3_000_000
"""How long an edge waits for a connection, and for the answer to its first frame."""
EDGE_PATIENCE_US = 1_500_000
"""How long an edge without an attachment keeps the edges behind it, before it sends them to look for another
one."""
EDGE_UNSURE_US = 2_000_000
"""How long an edge whose attachment was lost waits for what it had sent there to come in the feed, before it
tells its clients that nobody knows what became of it."""
EDGE_ATTACHMENTS_MAX = 16
"""Addresses of attachments that an edge is given."""
EDGE_COORDINATORS_FEW = 8
"""Edges that attach to one daemon of the core before further ones look for one of these: its expected number
of coordinators."""
EDGE_NEIGHBOURS_MAX = 64
"""Coordinators in one answer to a probe: some 4 KB."""
EDGE_KNOWN_MAX = 256
"""Coordinators that an edge remembers."""
EDGE_PROBES = 4
"""Coordinators that an edge asks at a time."""
EDGE_PROBE_US = 1_000_000
"""Whoever has not answered a probe after this is out of reach for now."""
EDGE_SEARCH_US = 5_000_000
"""How long an edge looks for a coordinator before it becomes one."""
EDGE_DETERMINE_US = 10_000_000
"""How often an edge looks whether its place is still the right one, with at most EDGE_PROBES questions; and
how often it reports what is behind it."""
EDGE_NEARER = 2
"""A child moves to a coordinator that is nearer by this factor."""
EDGE_FAILURES_MAX = 3
"""A coordinator that does not answer more often than this in a row is forgotten until somebody tells of
it."""
EDGE_MOVE_US = 3_000_000
"""How long another attachment stands by before an edge moves there: by then it listens to what the edge
wants."""
EDGE_MOVE_MOST_US = 15_000_000
"""After so long it moves although the fate of something that it sent is not known."""
CAST_CHILDREN_MIN = 2
"""An edge multicasts only what at least so many of the edges behind it want that hear its multicasts: for one
a copy costs the same."""
CAST_PACKET_BYTES = 1_300
"""Of the feed in one packet of a cast: with its header it is never cut into fragments of IP."""
CAST_ITEM_MAX_BYTES = 256 * 1024
"""A larger item goes to each edge over its connection, which does not send faster than is read."""
CAST_PROBE_FIRST_US = 50_000
CAST_PROBE_US = 2_000_000
"""How often an edge asks those behind it, by multicast, whether they hear it: after the first of these times,
then after twice as long each time, up to the second."""
CAST_PROOF_US = 3 * CAST_PROBE_US
"""For how long an answer is believed."""
CAST_NEWS_FIRST_US = 20_000
"""After this, and then after twice as long each time up to CAST_PROBE_US, it is said how far a cast has come
that has gone quiet: so that the loss of its last packets is noticed."""
CAST_KEEP_BYTES = 8 * 1024 * 1024
CAST_KEEP_US = 10_000_000
"""What an edge keeps of a cast to repair it for others: no more bytes, and nothing older."""
CAST_AHEAD_PACKETS = 4_096
CAST_AHEAD_BYTES = 8 * 1024 * 1024
"""Packets of a cast that are kept although earlier ones are missing; later ones are dropped, and asked for
again."""
CAST_QUEUE_BYTES = 4 * 1024 * 1024
"""What waits of the feed that came over the connection, because packets of the cast belong before it; beyond
it the edge asks for the feed over the connection alone."""
CAST_DISTANCE_MIN_US = 1_000
CAST_DISTANCE_MAX_US = 500_000
"""Distances that timers of requests and repairs are made from: clocks and busy processes are not exact."""
CAST_ROUNDS = 3
"""So many requests for a packet are multicast, or heard from others, before the coordinator is asked over the
connection."""
CAST_REQUEST_RANGES = 32
CAST_REQUEST_PACKETS = 1_024
"""What one request asks for at the most."""
CAST_REPAIRS_TURN = 32
CAST_REPAIRS_PAUSE_US = 1_000
"""So many repairs are multicast at a time, and then nothing for this time."""
CAST_ESCALATED_US = 3_000_000
"""When the coordinator is asked again over the connection, if it has not answered."""
CAST_LACKS_MAX = 512
"""An edge that has asked for more packets over the connection between two answers to probes is fed over it
alone for CAST_BARRED_US, and twice as long each time up to eight minutes."""
CAST_BARRED_US = 30_000_000
LISTENED_GROUPS_MAX = 1_024
"""Groups in one message with which a daemon says that it listens to them: some 40 KB."""
TOKEN_MIN_CHARACTERS = 16
"""A token that is shorter can be guessed."""
TOKEN_MAX_CHARACTERS = 512
"""Of a token with which a client says who it is."""
SECRET_FILE_MAX_BYTES = 1024 * 1024
"""Of a file of tokens or keys: a larger one is none."""
