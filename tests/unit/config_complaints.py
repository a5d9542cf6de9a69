"""What is said about a configuration that is wrong."""

import pytest

from antiphon import config
from antiphon.errors import ConfigError


def complaint(text: str) -> str:
    """What is said about a wrong text; always one line."""
    with pytest.raises(ConfigError) as caught:
        config.parse(text, "cluster.toml")
    message = str(caught.value)
    assert "\n" not in message
    return message
