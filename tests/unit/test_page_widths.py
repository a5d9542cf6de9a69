"""Pages as a browser lays them out: no column of a table is cut off where there is room for it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from antiphon.plots.page import Page, Paragraph, Section, Table, render

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
STAGE = "17 ms / 1.1 ms / 150 ms"
WAYS = Table(
    "Parts of the way", ("service", "deliveries", *["stage"] * 4), [("agreed", "5,002", *[STAGE] * 4)]
)
RUNS = Table("Runs", ("run", *["installations"] * 7), [("live-wide-area", *["1,234,567"] * 7)])
LOOK = """<script>document.title = [...document.querySelectorAll(".table")].map(
one => one.scrollWidth > one.clientWidth).join() + " " + (document.documentElement.scrollWidth > innerWidth)
</script></body>"""


def page() -> str:
    return render(Page("Report", [Paragraph("soft")], [Section("a", "All", [WAYS, RUNS])], "Made by a test."))


def test_tables_may_be_wider_than_text() -> None:
    (most,) = re.findall(r"main, header, footer { max-width: (\d+)px", page())
    assert 1_100 < int(most) <= 1_200
    assert re.search(r"\.table {[^}]*max-width: 100%", page())


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize(("width", "swiped"), [(1_200, "false,false"), (500, "true,true")])
def test_no_column_is_cut_off_on_a_desk_and_no_page_is_wider_than_a_phone(
    tmp_path: Path, width: int, swiped: str
) -> None:
    assert CHROMIUM is not None
    place = tmp_path / "page.html"
    place.write_text(page().replace("</body>", LOOK))
    words = (
        f"--user-data-dir={tmp_path / 'user'}",
        f"--window-size={width},900",
        "--dump-dom",
        f"file://{place}",
    )
    done = subprocess.run([CHROMIUM, *FLAGS, *words], capture_output=True, text=True, timeout=120, check=True)
    assert f"<title>{swiped} false</title>" in done.stdout
