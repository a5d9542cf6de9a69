"""By what a client is known."""

from msgspec import Struct


class Evidence(Struct, frozen=True):
    """What a connection shows of who is at its other end."""

    uid: int | None = None
    """The user of this machine, over a unix socket, as the kernel says."""
    names: tuple[str, ...] = ()
    """The names in a certificate that was checked."""
    token: bytes = b""
    """The keyed digest of its token; never the token itself."""

    def __str__(self) -> str:
        """For a refusal: what was shown, and no secret."""
        shown = [f"user {self.uid} of this machine"] if self.uid is not None else []
        shown += [f"a certificate of {self.names[0][:64]}"] if self.names else []
        shown += ["a token"] if self.token else []
        return " and ".join(shown) or "neither a certificate nor a token"


NOTHING_SHOWN = Evidence()
