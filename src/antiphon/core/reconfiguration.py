"""A change of which daemons bear the numbers of a configuration, while a node runs.

Only names and vacancies change: a cluster without a file has the same slots from its start, see
`config.discovered`. The core knows daemons by their numbers, so all that has to be told is who is asked
whether it is there, and how daemons are called. A number that another daemon bears from now on looks like a
restart of its daemon, which the membership knows how to handle: its incarnation is another one.

Checked by: tests/unit/test_reconfiguration.py, tests/runtime/test_discovered_clusters.py.
"""

from typing import TYPE_CHECKING

from antiphon.config import Config

if TYPE_CHECKING:
    from antiphon.core.node import Node


def reconfigure(node: "Node", config: Config, vacant: frozenset[int], now_us: int) -> None:
    """The node's configuration is this one from now on, in which no daemon bears the `vacant` numbers."""
    assert config.digest == node.config.digest and config.daemon_count == node.config.daemon_count
    assert config.daemon_names[node.me] == node.name
    node.config = config
    node.backpressure.daemon_names = config.daemon_names
    node.suspicion.names = config.daemon_names
    node.time.config = config
    node.membership.reconfigure(config, vacant, now_us)
    node.is_settled = False
