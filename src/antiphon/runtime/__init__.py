"""The real world around the protocol node: sockets, clocks, timers and the clients' listeners."""
