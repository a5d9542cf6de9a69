"""The virtual world: whole clusters in one process and in virtual time, and the oracle that judges them.

The nodes inside are the shipping `core.node.Node`; only sockets, clocks and clients are imitated. One seed
gives one run, to the byte.
"""
