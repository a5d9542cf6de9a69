"""One process of a measurement of a peer.

`python -m antiphon.load.peers.worker send|receive|serve PEER ADDRESS [WORK]`
"""

import sys

import msgspec

from antiphon.errors import AntiphonError
from antiphon.load.peers.known import PEERS
from antiphon.load.peers.work import Work
from antiphon.load.plan import Failed, Ready, Received, Sent


def _report(value: Ready | Sent | Received | Failed) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def main() -> None:
    """Be a sender, a receiver or a server; the report of the first two is the last line of stdout."""
    role, name, address, *rest = sys.argv[1:]
    peer = PEERS[name]
    if role == "serve":
        peer.serve(address)
        return
    work = msgspec.json.decode(rest[0], type=Work)
    try:
        if role == "send":
            _report(peer.send(work, address))
        else:
            _report(peer.receive(work, address, lambda: _report(Ready())))
    except (AntiphonError, OSError) as error:
        _report(Failed(str(error)))


if __name__ == "__main__":
    main()
