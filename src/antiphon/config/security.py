"""Who may come in, and how what they say is protected: the table `[security]` of the file."""

from typing import Literal

from msgspec import Struct

ClientCertificates = Literal["none", "optional", "required"]


class TlsConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """What a daemon shows to clients at places that begin with `tls:`, and what it asks of them.

    An edge shows the same to its attachments, and asks the same of them.
    """

    certificate: str
    """A file with the daemon's certificate and those between it and the root, as PEM."""
    key: str
    """A file with the key of the certificate, which nobody else may read."""
    ca: str = ""
    """A file with the roots that certificates of clients, and of attachments, must come from."""
    client_certificates: ClientCertificates = "none"


class Security(Struct, frozen=True, forbid_unknown_fields=True):
    """What protects daemons and clients. File names are relative to the folder of the file that has them."""

    insecure: bool = False
    """Whether daemons start without a key at addresses that other machines reach, and serve clients over
    plain TCP there."""
    key_file: str = ""
    """The cluster's key, the same for all daemons (`antiphon config keygen`), which nobody else may read."""
    next_key_file: str = ""
    """The key that is to follow it. While there is no such file, none does."""
    spread_from: tuple[str, ...] = ()
    """Networks such as 10.0.0.0/8, from which Spread's clients may connect over TCP (its `IP` method)."""
    access_file: str = ""
    """A file that says who may do what (`access`); without it, whoever can connect may do everything."""
    tls: TlsConfig | None = None
