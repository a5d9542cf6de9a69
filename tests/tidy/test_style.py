"""The style of the project, as far as a program can see it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "antiphon"
SOURCES = sorted(PACKAGE.rglob("*.py"))
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
PROGRAMS = [
    *SOURCES,
    *EXAMPLES,
    *(path for folder in ("tests", "bench") for path in sorted((ROOT / folder).rglob("*.py"))),
]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = [
    *PROGRAMS,
    *PAGES,
    *(ROOT / name for name in ("Makefile", "pyproject.toml", ".ci/run")),
]

LINES_MAX = 600

ABBREVIATIONS = {
    "addr": "address",
    "buf": "buffer",
    "cfg": "config",
    "cnt": "count",
    "conf": "config",
    "conn": "connection",
    "ctx": "context",
    "grp": "group",
    "hdr": "header",
    "idx": "index",
    "impl": "a name that says what it does",
    "len": "size, length or count",
    "mgr": "a name that says what it does",
    "msg": "message",
    "msgs": "messages",
    "num": "number or count",
    "pkt": "packet",
    "pkts": "packets",
    "proc": "process",
    "recv": "receive",
    "req": "request",
    "resp": "answer",
    "ret": "result",
    "seq": "sequence",
    "sess": "session",
    "sock": "socket",
    "srv": "daemon",
    "svc": "service",
    "tmp": "a name that says what it holds",
    "util": "a name that says what it does",
    "utils": "names that say what they do",
}
"""Words that no name of ours has, and what to say instead. The papers' own (lts, aru) are words of ours."""

GIVEN = re.compile(r"__\w+__|tmp_path\w*|recv_into|num_tickets")
"""Names that Python and pytest chose."""

UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
PLACES = {
    "a path of one machine": re.compile(r"(?<![\w.])/(?:work|root|home|Users)/\w"),
    "a package registry": re.compile(r"--(?:extra-)?index-url|pypi\.org|pythonhosted|artifactory|\bnexus\b"),
}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def listed(faults: list[str]) -> str:
    return "\n".join(["", *faults])


def broken(path: Path, pattern: re.Pattern[str]) -> list[str]:
    """The lines of a file in which `pattern` occurs."""
    lines = path.read_text().splitlines()
    return [
        f"{name_of(path)}:{number}: {line}" for number, line in enumerate(lines, 1) if pattern.search(line)
    ]


def own_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every name that a program gives: to classes, functions, arguments, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def words_of(name: str) -> list[str]:
    """The words of a name in any of Python's styles."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)]


def test_there_is_something_to_look_at() -> None:
    assert len(SOURCES) > 20
    assert len(EXAMPLES) >= 3
    assert len(PAGES) > 3


def test_a_file_is_one_idea() -> None:
    long = [f"{name_of(p)}: {n} lines" for p in PROGRAMS if (n := p.read_text().count("\n")) > LINES_MAX]
    assert not long, listed(long)


def test_everything_public_says_what_it_is() -> None:
    silent = []
    for path in [*SOURCES, *EXAMPLES]:
        tree = ast.parse(path.read_text())
        if not ast.get_docstring(tree):
            silent.append(name_of(path))
        for node in tree.body:
            if (
                isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and not node.name.startswith("_")
                and not (path in EXAMPLES and node.name == "main")  # the file says what it does
                and not ast.get_docstring(node)
            ):
                silent.append(f"{name_of(path)}:{node.lineno}: {node.name}")
    assert not silent, listed(silent)


def test_nothing_is_left_unfinished() -> None:
    unfinished = [line for path in TEXTS for line in broken(path, UNFINISHED)]
    assert not unfinished, listed(unfinished)


def test_only_the_command_line_prints() -> None:
    printing = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        if PACKAGE / "cli" not in path.parents
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not printing, listed(printing)


def test_names_are_whole_words() -> None:
    short = [
        f"{name_of(path)}:{line}: {name}: {word!r} is for {ABBREVIATIONS[word]}"
        for path in PROGRAMS
        for line, name in own_names(ast.parse(path.read_text()))
        for word in words_of(name)
        if word in ABBREVIATIONS and not GIVEN.fullmatch(name)
    ]
    assert not short, listed(short)


def test_files_are_named_in_whole_words() -> None:
    short = [name_of(path) for path in PROGRAMS if set(words_of(path.stem)) & ABBREVIATIONS.keys()]
    assert not short, listed(short)


@pytest.mark.parametrize("what", PLACES)
def test_nothing_depends_on_one_machine(what: str) -> None:
    looked_at = [path for path in TEXTS if path != Path(__file__)]
    tied = [line for path in looked_at for line in broken(path, PLACES[what])]
    assert not tied, listed(tied)


# Links between pages --------------------------------------------------------------------------------------


def without_code(page: str) -> str:
    """The prose of a page: code blocks and code words may hold brackets that are no links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE))


def anchors(page: str) -> set[str]:
    """The anchors that a page's headings get when it is shown."""
    headings = re.findall(r"^#+\s+(.*?)\s*$", re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.M), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def faulty_links(path: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    faulty = []
    for target in re.findall(r"\]\(\s*<?([^)\s>]+)", without_code(path.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        page = (path.parent / file).resolve() if file else path
        if not page.exists() or (anchor and anchor not in anchors(page.read_text())):
            faulty.append(f"{name_of(path)}: {target}")
    return faulty


def test_every_link_leads_somewhere() -> None:
    faulty = [link for path in PAGES for link in faulty_links(path)]
    assert not faulty, listed(faulty)


# The checks themselves can fail ---------------------------------------------------------------------------


def test_names_are_cut_into_words() -> None:
    assert words_of("_nextMsg_BUF2") == ["next", "msg", "buf", "2"]
    assert words_of("UdpSocket") == ["udp", "socket"]


def test_every_way_to_give_a_name_is_seen() -> None:
    program = "class A:\n  def b(self, c, *d): self.e = f.g\nfor h in i: (j, k) = l; m: int = 1; n += 1"
    assert {name for _, name in own_names(ast.parse(program))} == {*"Abcdehjkmn", "self"}


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading, with `code`\n[a](#a-heading-with-code) [b](#b) [c](c.md) [d](page.md) `[e](e)`"
    )
    assert faulty_links(page) == ["page.md: #b", "page.md: c.md"]


@pytest.mark.parametrize("line", ["cd /work/x", "open('/root/a')", "# /home/me/b"])
def test_a_path_of_one_machine_is_found(line: str) -> None:
    assert PLACES["a path of one machine"].search(line)
