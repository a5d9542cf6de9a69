"""How long the membership of daemons waits for others before it acts without them: counts and times that no
deployment needs to change, unlike those of `config.timing`.
"""

GATHERS_MAX = 6
"""A gathering that always brings something new ends after so many times its usual length."""
STUCK_RECOVERIES = 10
"""A view that is being formed is given up after so many recovery times without news: a member that has got
everything sees nothing of what others still send each other, perhaps over slow links. A member
that waits for one that has failed finds out by its silence, much sooner. Members that still receive tell
the others so, in time for that."""
TELLS_PER_STUCK = 4
"""How often a member that receives tells the others so, in the time after which they would give up."""
STATIONS_PER_BEAT = 24
"""So many stations fit a packet that crosses every path whole."""
LONG_STATIONS_PER_BEAT = 3
"""So many stations fit such a packet while some of them announce daemons that are left out or damped."""
BETTER_AFTER_US = 30_000_000
"""A link that is missing between two members is added when they have heard each other for so long without a
break: every view change stops all members for a while, and the view works without it."""
PATIENCE_GATHERS = 9
"""How many gatherings a daemon waits for another one's proposal."""
