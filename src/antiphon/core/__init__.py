"""The protocols, pure: events and the time go in, effects come out.

No socket, clock, randomness, logging or thread lives here, so the same objects run in the daemon and in the
simulator. `node.Node` is the door; below it stand `groups`, `ordering`, `overlay` and `links`, in the order
in which a message goes down.
"""
