"""What becomes of small bundles on a link, in counts: no clock, no network.

    python bench/packing.py

For floods of bundles that cannot be gathered it tells how many packets, trains (system calls), fragments and
cut bundles (which must be put together again) there are for a thousand bundles, and how many bytes of packets
are neither head nor bundle.
"""

from collections.abc import Iterable

from antiphon.core.effects import DatagramCounter
from antiphon.core.links.packing import Packer
from antiphon.wire import packet, trains
from antiphon.wire.packet import Data, Fragment, PacketKind

HEADER_BYTES = 90
"""About what a bundle with one message to one group has beside it."""
BUNDLES = 20_000


def count(packet_bytes: int, sizes: Iterable[int], waiting: int) -> str:
    """Bundles of these sizes, of which `waiting` are in the queue whenever a train is made."""
    prefix = packet.prefix(PacketKind.DATA, digest=1, sender=0, receiver=1, incarnation=1, view=1)
    packer = Packer(packet_bytes, prefix, DatagramCounter())
    packets = made = fragments = size_bytes = 0
    cut: set[int] = set()
    sent, number = iter(enumerate(sizes, start=1)), 0
    carried = 0
    while True:
        for number, size in sent:
            packer.add(Fragment(0, number, 1, size, 0, bytes(size)))
            carried += size
            if number % waiting == 0:
                break
        if not packer:
            break
        while packer:
            train = packer.train(packets + 1, 64)
            packets += train.count
            made += 1
            size_bytes += train.size_bytes
            for incoming in trains.parse_train(memoryview(b"".join(train.buffers)), train.stride_bytes):
                assert isinstance(incoming, Data)
                for item in incoming.items:
                    assert isinstance(item, Fragment)
                    fragments += 1
                    if len(item.body) < item.total:
                        cut.add(item.number)
    each = number / 1_000
    return (
        f"{packets / each:8.0f} packets {made / each:7.1f} trains {fragments / each:7.0f} fragments "
        f"{len(cut) / each:6.0f} cut {size_bytes / carried:6.3f} bytes sent per byte"
    )


def main() -> None:
    """Print the table."""
    mixed = [50 + (number * 7_919) % 1_500 for number in range(BUNDLES)]
    floods = {
        "100 B": [100 + HEADER_BYTES] * BUNDLES,
        "1 KB": [1_000 + HEADER_BYTES] * BUNDLES,
        "50 to 1,550 B": mixed,
    }
    for packet_bytes in (1_400, 1_472, 8_952, 61_440):
        for name, sizes in floods.items():
            print(f"{packet_bytes:6,} {name:>14}: {count(packet_bytes, sizes, waiting=500)}")


if __name__ == "__main__":
    main()
