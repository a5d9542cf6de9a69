"""Imports go downwards only, and the core is pure: the contracts in pyproject.toml, kept and able to fail."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINTER = Path(sys.executable).parent / "lint-imports"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the package `antiphon` in `folder` against the project's contracts."""
    command = [LINTER, "--config", ROOT / "pyproject.toml", "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


def skeleton(folder: Path) -> Path:
    """A package with every module that the contracts name, and nothing in them."""
    (folder / "antiphon").mkdir()
    (folder / "antiphon" / "__init__.py").touch()
    for contract in SETTINGS["contracts"]:
        for container in contract.get("containers", []):
            for name in " | ".join(contract["layers"]).split(" | "):
                module = folder.joinpath(*container.split("."), name)
                module.mkdir(exist_ok=True)
                (module / "__init__.py").touch()
    return folder


def test_the_contracts_are_kept() -> None:
    result = lint(ROOT / "src")
    assert result.returncode == 0, result.stdout


def test_an_empty_package_keeps_the_contracts(tmp_path: Path) -> None:
    result = lint(skeleton(tmp_path))
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("core", "socket"),
        ("core", "random"),
        ("wire", "time"),
        ("wire", "antiphon.core"),
        ("spreadwire", "antiphon.core"),
        ("spreadwire", "antiphon.runtime"),
        ("core", "antiphon.runtime"),
        ("runtime", "antiphon.simulator"),
        ("simulator", "antiphon.runtime"),
        ("runtime", "antiphon.client"),
        ("client", "antiphon.cli"),
        ("errors", "antiphon.types"),
        ("core.links", "antiphon.core.ordering"),
        ("core.ordering", "antiphon.core.membership"),
        ("core.membership", "antiphon.core.groups"),
        ("core.groups", "antiphon.core.node"),
        ("core.overlay", "antiphon.core.status"),
    ],
)
def test_a_broken_contract_is_found(tmp_path: Path, module: str, imported: str) -> None:
    folder = skeleton(tmp_path)
    folder.joinpath("antiphon", *module.split("."), "wrong.py").write_text(f"import {imported}\n")
    result = lint(folder)
    assert result.returncode == 1
    assert f"antiphon.{module}.wrong -> {imported}" in result.stdout


def test_a_detour_through_another_module_is_found(tmp_path: Path) -> None:
    folder = skeleton(tmp_path)
    (folder / "antiphon" / "core" / "wrong.py").write_text("import antiphon.types.clock\n")
    (folder / "antiphon" / "types" / "clock.py").write_text("import time\n")
    assert lint(folder).returncode == 1


@pytest.mark.parametrize("room", ["antiphon", "antiphon/core"])
def test_a_package_that_no_contract_names_is_found(tmp_path: Path, room: str) -> None:
    folder = skeleton(tmp_path)
    (folder / room / "shed").mkdir()
    (folder / room / "shed" / "__init__.py").touch()
    result = lint(folder)
    assert result.returncode == 1
    assert f"{room.replace('/', '.')}.shed" in result.stdout
