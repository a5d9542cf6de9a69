"""Layouts: how packets, bundles and frames look as bytes. Nothing else in Antiphon knows a byte offset.

- `packet`: what daemons send one another in datagrams; `membership` and `token` are bodies of packets
- `trains`: packets back to back, as the kernel sends and receives them
- `streams`: packets on connections between daemons
- `bundle`: the unit that is ordered, stored and delivered; the same bytes from client to client
- `extensions`: typed fields of a bundle's header
- `frames`: the client connection, control messages around bundles

Everything that comes in is parsed here, with limits, into values or a `BadPacket`/`BadFrame` with a reason.
"""
