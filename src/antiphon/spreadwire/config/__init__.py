"""Spread's configuration file, spread.conf, as one of ours.

`import_file` reads the text of such a file, as Spread 4.x and 5.x take it, and gives the same cluster as TOML
that our loader takes, with remarks on everything that is different here. A text that is no such file is a
ConfigError of one line: `spread.conf:12: expected ...`.

The text becomes `tokens`, which the `grammar` makes into segments, daemons and options; `translation` turns
those into our sites and daemons and chooses `ports` for them; `options` knows what each option of Spread has
become; `writing` makes the TOML. Nothing here touches a file or resolves the name of a host.
"""

from msgspec import Struct

from antiphon import config as configuration
from antiphon.errors import ConfigError
from antiphon.spreadwire.config.grammar import parse
from antiphon.spreadwire.config.remarks import Remark, shown
from antiphon.spreadwire.config.translation import translate
from antiphon.spreadwire.config.writing import written

__all__ = ["Imported", "Remark", "import_file"]


class Imported(Struct, frozen=True):
    """What has become of a file."""

    text: str
    """TOML."""
    remarks: tuple[Remark, ...]
    """Remarks in the order of lines; those on the whole file first."""


def import_file(text: str, source: str = "spread.conf") -> Imported:
    """Our configuration for the cluster that `text` describes, or a ConfigError. `source` is what messages
    call the text."""
    cluster, remarks = translate(parse(text, source), source)
    warnings = [remark.told(shown(source)[1:-1]) for remark in remarks if remark.is_warning]
    toml = written(cluster, warnings, source)
    try:
        configuration.parse(toml)
    except ConfigError as error:  # a limit of ours that has no line in the file that was read
        raise ConfigError(f"{source}: cannot become a configuration of Antiphon: {error}") from None
    return Imported(toml, remarks)
