"""Daemons with an access list, and with certificates made for the test."""

import secrets
import subprocess
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from antiphon.client import Tls
from antiphon.config import Config, Security, TlsConfig
from antiphon.runtime.local import local_config


def write_token(path: Path) -> str:
    """A new token, in a file of its own."""
    token = secrets.token_urlsafe(24)
    path.touch(mode=0o600)
    path.write_text(token + "\n")
    return token


def guarded(directory: Path, text: str, sites: int = 1) -> Config:
    """A cluster whose daemons have this access list."""
    (directory / "access.toml").write_text(text)
    config = local_config(sites, directory)
    return structs.replace(config, security=Security(access_file=str(directory / "access.toml")))


class Authority:
    """Makes certificates with the `openssl` of this machine."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self._directory = directory
        self._name = name
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{name}.key")
        self._openssl(
            "req", "-x509", "-new", "-key", f"{name}.key", "-out", f"{name}.pem", "-days", "30",
            "-subj", f"/CN={name}",
        )  # fmt: skip
        self.roots = str(directory / f"{name}.pem")

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self._directory, check=True, capture_output=True)

    def issue(
        self, name: str, *, alternatives: Sequence[str] = (), days: int = 30, file: str = ""
    ) -> tuple[str, str]:
        """The files with a certificate for this common name, and with its key. With `days` below 0 it has
        expired."""
        file = file or name
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{file}.key")
        (self._directory / f"{file}.key").chmod(0o600)
        self._openssl("req", "-new", "-key", f"{file}.key", "-out", f"{file}.csr", "-subj", f"/CN={name}")
        words = ["x509", "-req", "-in", f"{file}.csr", "-CA", f"{self._name}.pem", "-out", f"{file}.pem"]
        words += ["-CAkey", f"{self._name}.key", "-CAcreateserial", "-days", str(days)]
        if alternatives:
            extensions = self._directory / f"{file}.ext"
            extensions.write_text(f"subjectAltName={','.join(alternatives)}\n")
            words += ["-extfile", str(extensions)]
        self._openssl(*words)
        return str(self._directory / f"{file}.pem"), str(self._directory / f"{file}.key")

    def client(self, name: str, days: int = 30) -> Tls:
        """How a client with such a certificate speaks TLS."""
        return Tls(self.roots, *self.issue(name, days=days, file=f"client-{name}{days}"))


def with_tls(config: Config, authority: Authority, certificates: str = "none", days: int = 30) -> Config:
    """The same daemons, whose TCP places speak TLS."""
    certificate, key = authority.issue("daemon", alternatives=["IP:127.0.0.1"], days=days)
    tls = TlsConfig(certificate, key, authority.roots, certificates)  # type: ignore[arg-type]
    sites = tuple(
        structs.replace(
            site,
            daemon=tuple(
                structs.replace(
                    daemon, clients=tuple(place.replace("tcp:", "tls:") for place in daemon.clients)
                )
                for daemon in site.daemon
            ),
        )
        for site in config.sites
    )
    return structs.replace(config, sites=sites, security=structs.replace(config.security, tls=tls))
