"""The configuration of a cluster that has no file: one site with a fixed number of slots.

A slot is a daemon number. All daemons of a cluster have the same slots from the start, so nothing that counts
daemons ever changes; which daemon bears a number, how it is called and where it is, is found out while they
run (`core.discovery`), and `named` makes a configuration that says so.

The digest is of the cluster's name and of the slots alone: daemons that know different ones of the others
still work together, and never with daemons that have a file.
"""

import zlib
from collections.abc import Mapping

import msgspec
from msgspec import structs

from antiphon import limits
from antiphon.config.values import Config, DaemonConfig, Settings, SiteConfig

SLOTS = limits.DAEMONS_PER_SITE_MAX
NOWHERE = "0.0.0.0:0"


def vacant_name(number: int) -> str:
    """What stands for the name of a slot that no daemon bears: no daemon can be called so."""
    return f"#{number}"


def discovered(cluster: str, settings: Settings | None = None) -> Config:
    """The configuration of the cluster with this name, with vacant slots only."""
    settings = structs.replace(settings or Settings(), name=cluster)
    daemons = tuple(DaemonConfig(name=vacant_name(number), address=NOWHERE) for number in range(SLOTS))
    digest = zlib.crc32(msgspec.json.encode(("discovered", cluster, SLOTS, settings.order)))
    return Config(
        settings=settings, sites=(SiteConfig(name=cluster, daemon=daemons),), links=(), digest=digest
    )


def named(config: Config, names: Mapping[int, str]) -> Config:
    """The same configuration with these daemons, by number, and all other slots vacant."""
    site = config.sites[0]
    daemons = tuple(
        structs.replace(daemon, name=names.get(number, vacant_name(number)))
        for number, daemon in enumerate(site.daemon)
    )
    return Config(config.settings, (structs.replace(site, daemon=daemons),), config.links, config.digest)
