"""A configuration as the text of a file, for programs that start daemons."""

from typing import Any

import tomli_w
from msgspec import to_builtins

from antiphon.config.values import Config, File


def as_toml(config: Config) -> str:
    """A text from which `parse` makes the same configuration."""
    file = File(site=config.sites, cluster=config.settings, link=config.links, edge=config.edges)
    tree = _without_none(to_builtins(file))
    security = _without_none(to_builtins(config.security))
    tree["security"] = {name: value for name, value in security.items() if value}
    return tomli_w.dumps(
        tree if tree["security"] else {name: tree[name] for name in tree if name != "security"}
    )


def _without_none(value: Any) -> Any:
    """The value without the keys that are left to the defaults: TOML has no value for these."""
    match value:
        case dict():
            return {key: _without_none(part) for key, part in value.items() if part is not None}
        case list() | tuple():
            return [_without_none(part) for part in value]
        case _:
            return value
