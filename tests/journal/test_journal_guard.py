"""Who may read a journal over the network: TLS, certificates and tokens, with real servers and readers."""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.flight as flight
import pytest
from guarded import Authority, write_token
from journal_stories import fill
from msgspec import structs

from antiphon.errors import NotAllowed, UsageError
from antiphon.journal.errors import JournalUnavailable
from antiphon.journal.guard import Guard
from antiphon.journal.log import Fsync, Log, LogSettings
from antiphon.journal.reader import Journals
from antiphon.journal.server import JournalServer
from antiphon.runtime.credentials import CredentialFiles
from antiphon.runtime.tls import Tls

TLS = "grpc+tls://127.0.0.1:0"
PLAIN = "grpc://127.0.0.1:0"


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("papers"))


@contextmanager
def served(folder: Path, location: str, guard: Guard) -> Iterator[JournalServer]:
    log = Log(folder / "journal", LogSettings(Fsync.NEVER))
    fill(log, 1, 3)
    try:
        server = JournalServer(log, location, ("tea",), guard=guard)
        try:
            yield server
        finally:
            server.shutdown()
    finally:
        log.close()


def sealed(papers: Authority, **more: str) -> Guard:
    certificate, key = papers.issue("journal", alternatives=["IP:127.0.0.1"])
    return Guard(certificate, key, **more)


def count(journals: Journals) -> int:
    return sum(batch.num_rows for batch in journals.read(0, journals.positions().latest, ["tea"]))


def test_a_reader_with_the_right_roots_and_token_reads(tmp_path: Path, papers: Authority) -> None:
    token = write_token(tmp_path / "readers")
    (tmp_path / "reader").touch(mode=0o600)
    (tmp_path / "reader").write_text(token)
    files = CredentialFiles(Tls(papers.roots), str(tmp_path / "reader"))
    with served(tmp_path, TLS, sealed(papers, token_file=str(tmp_path / "readers"))) as server:
        assert server.endpoint.startswith("grpc+tls://127.0.0.1:")
        journals = Journals([server.endpoint], patience_s=5, files=files)
        assert count(journals) == 3
        travelled = pickle.dumps(journals)
        assert token.encode() not in travelled
        assert count(pickle.loads(travelled)) == 3
        assert token not in repr(journals) + repr(files)


@pytest.mark.parametrize("location", [PLAIN, TLS])
@pytest.mark.parametrize("token", ["", "wrong-" * 5])
def test_a_reader_without_a_token_that_is_known_is_told_at_once(
    tmp_path: Path, papers: Authority, location: str, token: str
) -> None:
    write_token(tmp_path / "readers")
    guard = Guard(token_file=str(tmp_path / "readers"))
    if location == TLS:
        guard = sealed(papers, token_file=guard.token_file)
    if token:
        (tmp_path / "reader").touch(mode=0o600)
        (tmp_path / "reader").write_text(token)
    files = CredentialFiles(Tls(papers.roots), str(tmp_path / "reader") if token else "")
    with (
        served(tmp_path, location, guard) as server,
        pytest.raises(NotAllowed, match="for readers with a token that it knows"),
    ):
        count(Journals([server.endpoint], patience_s=60, files=files))


def test_every_call_needs_the_token(tmp_path: Path) -> None:
    write_token(tmp_path / "readers")
    with served(tmp_path, PLAIN, Guard(token_file=str(tmp_path / "readers"))) as server:
        client = flight.FlightClient(server.endpoint)
        for call in (
            lambda: list(client.list_flights()),
            lambda: client.do_get(flight.Ticket(b'{"start": 0, "end": 1}')).read_all(),
            lambda: list(client.do_action("positions")),
            lambda: client.list_actions(),
        ):
            with pytest.raises(flight.FlightUnauthenticatedError):
                call()


def test_readers_that_need_a_certificate(tmp_path: Path, papers: Authority) -> None:
    with served(tmp_path, TLS, sealed(papers, ca=papers.roots)) as server:
        files = CredentialFiles(papers.client("reader"))
        assert count(Journals([server.endpoint], patience_s=5, files=files)) == 3
        with pytest.raises(JournalUnavailable):
            count(Journals([server.endpoint], patience_s=1, files=CredentialFiles(Tls(papers.roots))))
        assert count(Journals([server.endpoint], patience_s=5, files=files)) == 3


def test_a_server_with_another_certificate_gets_no_question(
    tmp_path: Path, papers: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    others = Authority(tmp_path_factory.mktemp("others"), "others")
    with served(tmp_path, TLS, sealed(papers)) as server:
        for files in (
            CredentialFiles(Tls(others.roots)),
            CredentialFiles(Tls(papers.roots, server_name="elsewhere.example")),
        ):
            with pytest.raises(JournalUnavailable):
                Journals([server.endpoint], patience_s=1, files=files).positions()
        plain = server.endpoint.replace("grpc+tls", "grpc")
        with pytest.raises(JournalUnavailable):
            Journals([plain], patience_s=1, files=CredentialFiles()).positions()


@pytest.mark.parametrize(
    ("location", "guard", "fault"),
    [
        ("grpc://0.0.0.0:0", Guard(), "is plain, and other machines may reach it"),
        ("grpc+tls://127.0.0.1:0", Guard(), "needs a certificate and its key"),
        ("grpc://127.0.0.1:0", Guard(certificate="a", key="b"), "a certificate is for grpc\\+tls://"),
        ("grpc://127.0.0.1:0", Guard(token_file="none"), "cannot read none, a file of tokens"),
        ("http://127.0.0.1:0", Guard(), "grpc\\+tls://HOST:PORT or grpc://HOST:PORT"),
    ],
)
def test_a_server_that_would_protect_nobody_does_not_start(
    tmp_path: Path, location: str, guard: Guard, fault: str
) -> None:
    with pytest.raises(UsageError, match=fault), served(tmp_path, location, guard):
        pass


def test_a_trusted_network_needs_a_word(tmp_path: Path) -> None:
    with served(tmp_path, "grpc://0.0.0.0:0", Guard(insecure=True)) as server:
        here = server.endpoint.replace("0.0.0.0", "127.0.0.1")
        assert count(Journals([here], patience_s=5, files=CredentialFiles())) == 3


def test_a_key_that_others_can_read_is_refused(tmp_path: Path, papers: Authority) -> None:
    guard = sealed(papers)
    copy = tmp_path / "open.key"
    copy.write_bytes(Path(guard.key).read_bytes())
    copy.chmod(0o644)
    with (
        pytest.raises(UsageError, match="is open to others"),
        served(tmp_path, TLS, structs.replace(guard, key=str(copy))),
    ):
        pass


def test_a_token_is_not_sent_over_a_plain_connection_to_another_machine(tmp_path: Path) -> None:
    write_token(tmp_path / "reader")
    files = CredentialFiles(token_file=str(tmp_path / "reader"))
    with pytest.raises(UsageError, match=r"the token is not sent to grpc://192\.0\.2\.1:7000"):
        Journals(["grpc://192.0.2.1:7000"], patience_s=1, files=files).positions()
