"""Other systems that carry messages from one program to many, to be measured beside ours in one run.

A newcomer finds a line by what it says:

- `peer.py`: what every peer must be able to do, and how it says what is not installed;
- a file a peer (`nats_server.py`, `corosync_ring.py`, ...): how its server is started, and how its own Python
  client sends and receives, as its documentation shows it for speed; its docstring says what the peer does
  not promise;
- `known.py`: which peers there are, in the order of their turns;
- `work.py`: the messages that a sender sends and what a receiver counts and checks, the same for all;
- `servers.py`: server processes on loopback, gone when a measurement is over;
- `worker.py`: one process, a sender, a receiver or a server that is written in Python;
- `turns.py`: rounds in turns, so that what disturbs the machine disturbs all;
- `figures.py`: medians, spreads and ratios of what the rounds gave.

Nothing of this is a dependency of ours: a client of a peer is imported by the processes that use it, and only
there. A new peer is a new file and a line in `known.py`.
"""
