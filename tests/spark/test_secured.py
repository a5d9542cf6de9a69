"""The data source against daemons and journals that ask who comes: both sides, with TLS and a token."""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from guarded import Authority, guarded, with_tls, write_token
from msgspec import structs
from recorded_groups import wait_until

from antiphon.errors import NotAllowed
from antiphon.journal.guard import Guard
from antiphon.journal.reader import Journals
from antiphon.journal.running import Journal
from antiphon.runtime.credentials import CredentialFiles
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.tls import Tls
from antiphon.spark.options import check_options
from antiphon.spark.sink import Sender

LIST = f"""
[[user]]
name = "here"
unix = [{os.getuid()}]

[[user]]
name = "spark"
token_file = "spark.token"

[[allow]]
users = ["here"]
groups = ["*"]
may = ["join", "send", "status"]

[[allow]]
users = ["spark"]
groups = ["tea"]
may = ["send"]
"""


class Guarded:
    """A daemon and a journal of one group, both with TLS and tokens."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        papers = Authority(directory)
        write_token(directory / "spark.token")
        write_token(directory / "readers.token")
        config = guarded(directory, LIST)
        (site,) = config.sites
        daemons = tuple(
            structs.replace(one, clients=(*one.clients, "tcp:127.0.0.1:0")) for one in site.daemon
        )
        config = structs.replace(config, sites=(structs.replace(site, daemon=daemons),))
        daemon = stack.enter_context(Daemon(with_tls(config, papers), "d1"))
        certificate, key = papers.issue("journal", alternatives=["IP:127.0.0.1"])
        guard = Guard(certificate, key, token_file=str(directory / "readers.token"))
        journal = Journal(
            ["tea"], directory / "journal", listen="grpc+tls://127.0.0.1:0", guard=guard,
            address=daemon.places[0], linger_ms=1,
        )  # fmt: skip
        stack.enter_context(journal)
        over = threading.Event()
        thread = threading.Thread(target=journal.run, args=(over.is_set,))
        thread.start()
        stack.callback(thread.join)
        stack.callback(over.set)
        self.writing = {
            "address": daemon.places[1], "tlsCa": papers.roots, "tokenFile": f"{directory}/spark.token",
        }  # fmt: skip
        self.reading = {
            "endpoint": journal.endpoint, "tlsCa": papers.roots, "tokenFile": f"{directory}/readers.token",
        }  # fmt: skip
        files = CredentialFiles(Tls(papers.roots), f"{directory}/readers.token")
        journals = Journals([journal.endpoint], patience_s=10, files=files)
        wait_until(lambda: journals.positions().latest > 0, "the journal is a member")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with ExitStack() as stack:
        yield Guarded(tmp_path_factory.mktemp("guarded"), stack)


def test_the_options_name_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_TLS_CA", "of-the-environment.pem")
    reading, writing = check_options({"tokenFile": "mine.token", "tlsServerName": "sea"})
    files = CredentialFiles(Tls("of-the-environment.pem", server_name="sea"), "mine.token")
    assert reading.files == writing.files == files


def test_what_the_list_does_not_allow_fails_the_part(place: Guarded) -> None:
    _, writing = check_options({**place.writing, "timeoutSeconds": "20"})
    sender = Sender(writing, "query", 0, 0)
    with pytest.raises(NotAllowed, match="user 'spark' may not send to 'coffee'"):
        try:
            sender.send((("coffee",), writing.service, 0), [b"1", b"2"])
            sender.finish()
        finally:
            sender.close()


def test_rows_go_there_and_come_back(spark: Any, place: Guarded) -> None:
    frame = spark.createDataFrame([(b"%d" % number,) for number in range(100)], "payload binary")
    frame.write.format("antiphon").options(group="tea", **place.writing).mode("append").save()
    found = spark.read.format("antiphon").options(groups="tea", **place.reading).load()
    payloads = [bytes(row.payload) for row in found.where("kind = 'message'").collect()]
    assert sorted(payloads) == sorted(b"%d" % number for number in range(100))
