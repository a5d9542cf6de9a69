"""Packets between daemons are sealed: nobody without the cluster's key can read, forge or repeat them.

- `keys`: the cluster's key, and the one that follows it; from these the key of each process
- `seal`: the one door: what leaves a node is sealed there, and what comes in is opened
- `window`: no packet counts twice
- `introductions`: which process a daemon is now; what was recorded of its former lives counts for nothing

What is promised, and what is not: docs/explanation/security.md. The papers trust every packet.
"""
