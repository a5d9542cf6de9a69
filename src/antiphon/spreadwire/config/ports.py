"""Which ports our daemons take, so that they can run beside those of Spread on the same machines.

A daemon of Spread takes UDP ports P (data) and P + 1 (token) and TCP port P (clients), with P that of its
segment. Ours takes one UDP port for other daemons and the TCP port above it for its own clients.
"""

from collections.abc import Iterable

STEP = 10
"""The distance from Spread's port to ours, if that one is free."""
_PORT_MAX = 65_535


def choose_ports(spread_ports: Iterable[int]) -> dict[int, int]:
    """For each port of a segment the lower of our two; none is taken twice or by Spread anywhere.

    Machines are not told apart: segments with different ports may share one.

    >>> choose_ports([4803, 4813, 4803])
    {4803: 4823, 4813: 4833}
    """
    wanted = list(dict.fromkeys(spread_ports))
    taken = {port + above for port in wanted for above in (0, 1)}
    chosen: dict[int, int] = {}
    for port in wanted:
        candidates = [*range(port + STEP, _PORT_MAX, STEP), *range(port - STEP, 0, -STEP)]
        chosen[port] = next(one for one in candidates if not {one, one + 1} & taken)
        taken |= {chosen[port], chosen[port] + 1}
    return chosen
