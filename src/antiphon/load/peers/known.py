"""Which peers there are."""

from antiphon.load.peers.antiphon_daemon import AntiphonDaemon
from antiphon.load.peers.corosync_ring import CorosyncRing
from antiphon.load.peers.nats_server import NatsServer
from antiphon.load.peers.peer import Peer
from antiphon.load.peers.redis_server import RedisServer
from antiphon.load.peers.zenoh_router import ZenohRouter
from antiphon.load.peers.zmq_proxy import ZmqProxy

OURS = AntiphonDaemon.name
"""The peer that the others are compared with."""

PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (AntiphonDaemon(), NatsServer(), RedisServer(), ZmqProxy(), ZenohRouter(), CorosyncRing())
}
"""By name, in the order of their turns."""
