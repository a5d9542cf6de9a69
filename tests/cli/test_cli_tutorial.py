"""The tutorial, run from top to bottom in one shell as a reader would."""

import os
import re
import subprocess
import sys
from pathlib import Path

from command_line import TIMEOUT_S, environment

from antiphon.runtime.local import local_config

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"(?P<comment><!-- [^\n]*-->\n)?```(?P<language>\w+)\n(?P<text>.*?)```\n", re.DOTALL)
PORTS = ("4810", "4820", "4830")


def as_script(page: str) -> str:
    """Every block of the page as one shell script: files are written, programs run."""
    script = ["set -eu", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT"]
    for block in BLOCK.finditer(page):
        text = block["text"]
        match block["language"]:
            case "toml":
                script.append(f"cat > cluster.toml <<'END'\n{text}END")
            case "sh" if not block["comment"]:
                script.append(text)
            case "python":
                script.append(f"python - <<'END'\n{text}END")
    return "\n".join(script)


def test_the_tutorial_runs(tmp_path: Path) -> None:
    script = as_script(TUTORIAL.read_text())
    free = [daemon.address.rpartition(":")[2] for _, daemon in local_config(3, tmp_path).daemons()]
    for port, replacement in zip(PORTS, free, strict=True):
        assert f"127.0.0.1:{port}" in script
        script = script.replace(f"127.0.0.1:{port}", f"127.0.0.1:{replacement}")
    assert "--cluster tea" in script
    script = script.replace("--cluster tea", f"--cluster tea-{os.getpid()}")  # other runs have their own
    paths = environment() | {
        "PATH": f"{Path(sys.executable).parent}:{environment()['PATH']}",
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=TIMEOUT_S, cwd=tmp_path, env=paths
    )
    assert done.returncode == 0, done.stderr
    heard = (tmp_path / "heard.txt").read_text().splitlines()
    assert heard[1:] == [f"tea #olga#oslo1 safe: {word}" for word in ("green", "black", "mint")]
    assert "fine" in done.stdout
    assert "in Perth:" in done.stdout
    assert "('lunch', 'news')" in done.stdout
    assert "Traceback" not in done.stderr
    assert (tmp_path / "lan.txt").read_text().endswith("agreed: no file anywhere\n")
    assert "laptop (" in (tmp_path / "found.txt").read_text()
    assert not list(tmp_path.glob("*.sock"))
