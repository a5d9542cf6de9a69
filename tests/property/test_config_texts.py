"""Any text is a configuration or one sentence about what is wrong with it, at the right line."""

import datetime
import tomllib

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon import config
from antiphon.config.key_lines import KeyLines
from antiphon.errors import ConfigError

often = settings(deadline=None, max_examples=200)

KEYS = [
    "site", "cluster", "link", "daemon", "name", "address", "clients", "sites", "cost", "emulate", "loss",
    "delta_ms", "packet_bytes", "membership", "suspect_ms", "probe_max_ms", "other key",
]  # fmt: skip

Toml = (
    str
    | int
    | float
    | bool
    | datetime.datetime
    | datetime.date
    | datetime.time
    | list["Toml"]
    | dict[str, "Toml"]
)

texts = st.sampled_from(["a", "b", "lan", "host:1", "unix:/x", "", "a#b]", "two\nlines", '"', "\\", "'''"])
scalars = texts | st.integers() | st.floats() | st.booleans() | st.dates() | st.times() | st.datetimes()
trees: st.SearchStrategy[Toml] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)
documents = st.dictionaries(st.sampled_from(KEYS), trees, max_size=4)


def quoted(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'


def written(value: Toml) -> str:
    """A value as TOML, with line breaks where TOML allows them."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case int() | float():
            return repr(value)
        case list():
            return "[\n" + "".join(f"{written(one)}, # [[site]]\n" for one in value) + "]"
        case dict():
            return "{ " + ", ".join(f"{quoted(key)} = {written(one)}" for key, one in value.items()) + " }"
        case _:
            return value.isoformat()


def told(text: str) -> str:
    """What is said about `text`; nothing if it is a good configuration."""
    try:
        config.parse(text, "x.toml")
    except ConfigError as error:
        assert "\n" not in str(error)
        return str(error)
    return ""


@often
@given(st.text(max_size=200) | st.lists(st.sampled_from([*KEYS, "[", "]", "=", '"', "\n", "."])).map("".join))
def test_any_text_is_a_configuration_or_a_config_error(text: str) -> None:
    told(text)


@often
@given(documents)
def test_any_toml_is_a_configuration_or_a_config_error(document: dict[str, Toml]) -> None:
    text = "\n".join(f"{quoted(key)} = {written(value)}" for key, value in document.items())
    assert tomllib.loads(text).keys() == document.keys()
    message = told(text)
    assert not message or message.startswith("x.toml, line ")


@often
@given(documents)
def test_a_key_is_found_on_its_line_whatever_stands_before_it(document: dict[str, Toml]) -> None:
    sites = '[[site]]\nname = "a"\n[[site.daemon]]\nname = "d"\naddress = "h:1"\n'
    text = f"other = {written(list(document.values()))}\ncluster = {written(document)}\n{sites}"
    assert KeyLines(text).of(("site", 0, "daemon", 0, "address")) == text.count("\n")
