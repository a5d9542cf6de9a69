"""The access list of a daemon, read from its files, and again when it is told so.

Of tokens only keyed digests are kept, with a key that each process makes for itself: looking one up tells
nobody how much of a guess was right, whatever time it takes.
"""

import hmac
import pwd
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from antiphon.config import AccessFile, parse_access
from antiphon.config.access import AccessUser
from antiphon.core.access.rights import Usage, User, users_of
from antiphon.errors import ConfigError
from antiphon.runtime.evidence import Evidence
from antiphon.runtime.secret_files import read_tokens

_KEY = secrets.token_bytes(32)


def digest_of(token: str) -> bytes:
    """What is kept of a token."""
    return hmac.digest(_KEY, token.encode("utf-8", "replace"), "sha256")


class _TokenHolder(Struct, frozen=True):
    """Whose token it is, and until when."""

    name: str
    expires: datetime | None


class _Loaded(Struct, frozen=True):
    """A list with everything that its files say."""

    users: Mapping[str, User]
    by_uid: Mapping[int, str]
    by_certificate: Mapping[str, str]
    by_token: Mapping[bytes, _TokenHolder]
    anyone: str | None
    rules: int

    def __str__(self) -> str:
        parts = [f"{len(self.users)} users", f"{self.rules} rules", f"{len(self.by_token)} tokens"]
        return ", ".join(parts)


class AccessControl:
    """Who a client is, and what it may do."""

    def __init__(self, path: Path, now_us: int) -> None:
        """ConfigError for a list, or a file that it names, that cannot be used."""
        self.path = path
        self._loaded = _load(path)
        self._usage = {name: Usage(user.limits, now_us) for name, user in self._loaded.users.items()}

    def __str__(self) -> str:
        """What counts now, without a name or a secret."""
        return str(self._loaded)

    def reload(self, now_us: int) -> None:
        """Read the list again. ConfigError for one that cannot be used: then nothing has changed."""
        loaded = _load(self.path)
        self._loaded = loaded
        for name, user in loaded.users.items():
            usage = self._usage.get(name)
            if usage is None:
                self._usage[name] = Usage(user.limits, now_us)
            else:
                usage.change(user.limits, now_us)
        for name in [name for name in self._usage if name not in loaded.users]:
            del self._usage[name]

    def usage(self, user: User) -> Usage:
        """What all sessions of a user take together."""
        return self._usage[user.name]

    @property
    def usages(self) -> Mapping[str, Usage]:
        """The same, by the name of the user."""
        return self._usage

    def identify(self, evidence: Evidence) -> User | str:
        """Whose connection shows this, or why it is nobody's. A token counts before a certificate, and that
        before a user of the machine."""
        loaded = self._loaded
        name = None
        if evidence.token:
            holder = loaded.by_token.get(evidence.token)
            if holder is None:
                return "the token is not known here"
            if holder.expires is not None and datetime.now(UTC) >= holder.expires:
                return f"the token of user {holder.name!r} has expired"
            name = holder.name
        if name is None:
            found = (loaded.by_certificate.get(one) for one in evidence.names)
            name = next((one for one in found if one is not None), None)
        if name is None and evidence.uid is not None:
            name = loaded.by_uid.get(evidence.uid)
        if name is None:
            name = loaded.anyone
        if name is None:
            return f"the access list of this daemon has no user for {evidence}"
        return loaded.users[name]


def _load(path: Path) -> _Loaded:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"cannot read the access list {path}: {reason}") from None
    file = parse_access(text, str(path))
    return _Loaded(
        users_of(file),
        _by_uid(file, path),
        {name: user.name for user in file.user for name in user.certificate},
        _by_token(file, path),
        next((user.name for user in file.user if user.anyone), None),
        len(file.allow),
    )


def _by_uid(file: AccessFile, path: Path) -> dict[int, str]:
    found: dict[int, str] = {}
    for user in file.user:
        for one in user.unix:
            try:
                number = one if isinstance(one, int) else pwd.getpwnam(one).pw_uid
            except KeyError:
                raise ConfigError(f"{path}: user {user.name!r}: this machine has no user {one!r}") from None
            if found.setdefault(number, user.name) != user.name:
                raise ConfigError(f"{path}: users {found[number]!r} and {user.name!r} are both uid {number}")
    return found


def _by_token(file: AccessFile, path: Path) -> dict[bytes, _TokenHolder]:
    found: dict[bytes, _TokenHolder] = {}
    for user in file.user:
        try:
            expires = _expiry(user)
        except ValueError:
            what = f"{user.token_expires} is no day"
            raise ConfigError(f"{path}: token_expires of user {user.name!r}: {what}") from None
        for token in _tokens(user, path.parent):
            digest = digest_of(token)
            if digest in found:
                raise ConfigError(
                    f"{path}: users {found[digest].name!r} and {user.name!r} have the same token"
                )
            found[digest] = _TokenHolder(user.name, expires)
    return found


def _tokens(user: AccessUser, folder: Path) -> Iterable[str]:
    return read_tokens(folder / user.token_file) if user.token_file else ()


def _expiry(user: AccessUser) -> datetime | None:
    return datetime.fromisoformat(user.token_expires).replace(tzinfo=UTC) if user.token_expires else None
