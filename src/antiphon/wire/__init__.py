"""Layouts: how packets, bundles and frames look as bytes. Nothing else in Antiphon knows a byte offset.

- `packet`: what daemons send one another in datagrams
- `bundle`: the unit that is ordered, stored and delivered; the same bytes from client to client
- `frames`: the client connection, control messages around bundles

Everything that comes in is parsed here, with limits, into values or a `BadPacket`/`BadFrame` with a reason.
"""
