"""The programs on the pages about Spark run, in the session that all tests share."""

import re
from pathlib import Path
from typing import Any

from recorded_groups import numbered, room

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "spark.md"


def test_the_programs_of_the_how_to_run(spark: Any, tmp_path: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(programs) >= 5
    (tmp_path / "room").mkdir()
    with room(tmp_path / "room") as place, place.listening("totals", "orders-loud") as listener:
        journal = place.journal("journal", "orders")
        place.send("orders", [b"a%s" % number for number in numbered(0, 100)])
        journal.wait_for(b"a99")
        names: dict[str, Any] = {}
        for program in programs:
            here = (
                program.replace("grpc://127.0.0.1:7000", journal.endpoint)
                .replace("unix:/tmp/antiphon.sock", place.addresses[0])
                .replace('"tables/', f'"{tmp_path}/')
            )
            exec(here, names)
        place.send("totals", [b"end"])
        found = listener.take_until(b"end")
    assert names["spark"] is spark
    assert sorted(m.payload for m in found if m.group == "orders-loud") == sorted(
        b"A%s" % number for number in numbered(0, 100)
    )
    totals = [message for message in found if message.group == "totals"]
    assert all(total.payload.endswith(b" 100") for total in totals)
    days = [total.batch.batch for total in totals if total.batch.query == "daily-totals"]
    assert days == [20261116, 20261114, 20261115], "each day once"
    assert len(totals) == 1 + len(days)
