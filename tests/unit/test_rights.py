"""The access list as text, what it allows, and how much may pass in a time."""

import pytest

from antiphon.config import parse_access
from antiphon.config.access import UserLimits
from antiphon.core.access.bucket import Bucket
from antiphon.core.access.rights import Rights, Usage, users_of
from antiphon.errors import ConfigError

LIST = """
[limits]
sessions = 9
bytes_per_s = 1000

[[user]]
name = "orders"
unix = [1001, "nobody"]
priority_max = 5
limits = { sessions = 2 }

[[user]]
name = "guest"
anyone = true

[[allow]]
users = ["orders"]
groups = ["orders.*", "news"]
may = ["join", "send"]

[[allow]]
users = ["*"]
groups = ["news"]
may = ["join"]

[[allow]]
users = ["orders"]
may = ["status"]
"""


def test_a_user_may_what_a_rule_allows_and_nothing_else() -> None:
    users = users_of(parse_access(LIST))
    orders, guest = users["orders"], users["guest"]
    assert orders.may("join", "orders.eu") and orders.may("send", "news") and orders.may("status")
    assert not orders.may("join", "orders") and not orders.may("lock", "orders.eu")
    assert not orders.may("trace") and not orders.may("send", "#s1#d1")
    assert guest.may("join", "news") and not guest.may("send", "news") and not guest.may("status")


def test_users_without_any_rule_may_everything() -> None:
    user = users_of(parse_access('[[user]]\nname = "a"\nanyone = true'))["a"]
    assert user.may("reload") and user.may("call", "any") and user.may("send", "#s1#d1")


def test_a_pattern_is_text_but_for_its_stars() -> None:
    text = LIST.replace('"orders.*"', '"a+(b.*|[c"')
    orders = users_of(parse_access(text))["orders"]
    assert orders.may("send", "a+(b.x|[c") and not orders.may("send", "aab.x|[c")


def test_a_users_own_limits_count_before_those_of_all() -> None:
    users = users_of(parse_access(LIST))
    assert users["orders"].limits == UserLimits(sessions=2, bytes_per_s=1000)
    assert users["guest"].limits == UserLimits(sessions=9, bytes_per_s=1000)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "list, line 1, key user: expected this key, but it is missing"),
        ("user = []", "key user: expected at least one"),
        ('[[user]]\nname = "a"', "line 1, key user[0]: expected unix, certificate, token_file or anyone"),
        ('[[user]]\nname = ""\nanyone = true', "line 2, key user[0].name: expected a name"),
        (
            '[[user]]\nname = "a"\nunix = [7]\n[[user]]\nname = "b"\nunix = [7]',
            "line 6, key user[1].unix: 7 stands for user 'a' already",
        ),
        (
            '[[user]]\nname = "a"\nanyone = true\n[[user]]\nname = "a"\nunix = [1]',
            "line 5, key user[1].name: 'a' stands for user 'a' already",
        ),
        (
            '[[user]]\nname = "a"\nanyone = true\n[[allow]]\nusers = ["b"]\nmay = ["status"]',
            "line 5, key allow[0].users[0]: no user is called 'b'",
        ),
        (
            '[[user]]\nname = "a"\nanyone = true\n[[allow]]\nusers = ["a"]\nmay = ["join"]',
            "line 4, key allow[0]: expected groups: join is allowed group by group",
        ),
        (
            '[[user]]\nname = "a"\nanyone = true\n[[allow]]\nusers = ["a"]\nmay = ["fly"]',
            "line 6, key allow[0].may[0]: expected one of: join, send, lock, call, status",
        ),
        (
            '[[user]]\nname = "a"\nanyone = true\nshoe = 1',
            "line 4, key user[0].shoe: unknown key; expected one of: name, unix",
        ),
        (
            '[[user]]\nname = "a"\nanyone = true\ntoken_expires = "2030-01-01"',
            "expected token_file beside it",
        ),
        ("[[user]", "line 1: not TOML"),
    ],
)
def test_a_wrong_list_gets_one_line_that_says_where(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_access(text, "list")
    assert complaint in str(caught.value) and "\n" not in str(caught.value)


def test_a_bucket_lets_its_rate_pass_and_a_second_of_it_at_once() -> None:
    bucket = Bucket(1_000, now_us=0)
    bucket.take(1_000, 0)
    assert bucket.free_us(0) == 0 and bucket.room(0) == 0
    passed, now = 0, 0
    while now < 10_000_000:
        bucket.take(100, now)
        passed += 100
        now = max(now, bucket.free_us(now))
    assert 10_000 <= passed <= 10_100


def test_idle_time_is_not_saved_up_beyond_the_burst() -> None:
    bucket = Bucket(1_000, now_us=0)
    bucket.take(1_000, 60_000_000)
    assert bucket.free_us(60_000_000) == 60_000_000
    bucket.take(500, 60_000_000)
    assert bucket.free_us(60_000_000) == 60_500_000


def test_a_list_that_is_read_again_keeps_what_a_user_owes() -> None:
    usage = Usage(UserLimits(bytes_per_s=1_000), now_us=0)
    assert usage.bytes is not None
    usage.bytes.take(5_000, 0)
    usage.change(UserLimits(bytes_per_s=1_000, sessions=3), 0)
    assert usage.bytes.free_us(0) == 4_000_000
    usage.change(UserLimits(), 0)
    assert usage.bytes is None


def test_new_rights_forget_what_was_decided() -> None:
    user = users_of(parse_access(LIST))["orders"]
    rights = Rights(user, Usage(user.limits, 0))
    rights.remember(b"area")
    rights.renew(user)
    assert not rights.allowed and rights.renewals == 1
