"""Any text as an access list, any bytes as a file of tokens: a value, or one line that says what is wrong."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import AccessFile, parse_access
from antiphon.core.access.rights import users_of
from antiphon.errors import ConfigError
from antiphon.runtime.secret_files import read_tokens

TEXT = """
[limits]
sessions = 9
bytes_per_s = 1000

[[user]]
name = "orders"
unix = [1001, "nobody"]
token_file = "orders.token"
token_expires = "2030-01-01"
priority_max = 5
limits = { sessions = 2 }

[[user]]
name = "guest"
anyone = true

[[allow]]
users = ["*"]
groups = ["orders.*"]
may = ["join", "send"]
"""
PIECES = st.sampled_from(
    ['"', "[", "]", "[[", "]]", "=", "\n", "{", "}", "-1", "1e999", "user", "allow", "*", "(?", "\\", "\0",
     "[[user]]\n", "may", "true", "'''", "inf", "2030", "name", ".", "#", "ß", "9" * 30]
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = TEXT
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(text)))
        cut = draw(st.integers(0, 12))
        text = text[:at] + draw(PIECES) + text[at + cut :]
    return text


@given(st.one_of(mutated(), st.text(max_size=200)))
def test_any_text_is_a_list_or_has_one_fault(text: str) -> None:
    try:
        found = parse_access(text, "list")
    except ConfigError as error:
        assert str(error).startswith("list") and "\n" not in str(error)
        return
    assert isinstance(found, AccessFile)
    for user in users_of(found).values():
        assert user.may("join", "orders.eu") in (True, False) and user.may("status") in (True, False)


@given(st.binary(max_size=400))
def test_any_bytes_are_tokens_or_have_one_fault_that_shows_none_of_them(data: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tokens"
        path.touch(mode=0o600)
        path.write_bytes(data)
        try:
            tokens = read_tokens(path)
        except ConfigError as error:
            said = str(error).replace(str(path), "")
            assert all(word.decode("ascii", "replace") not in said for word in data.split() if len(word) > 8)
            return
    assert all(16 <= len(token) <= 512 and token.isprintable() for token in tokens)
