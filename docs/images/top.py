"""The picture of `skate top`, as SVG: `python docs/images/top.py [FILE]` runs a program for some
seconds, looks at it as `skate top` does, and writes what the terminal would show."""

import io
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from rich.console import Console  # noqa: E402
from skate._private import view  # noqa: E402
from skate.cli import screen  # noqa: E402

COLUMNS = 100
SECONDS = 6  # of the run when the picture is taken

PROGRAM = """
import time
import skate.data

def parse(batch):
    time.sleep(0.15)
    return {"user": batch["id"] % 1000, "ms": batch["id"] * 7919 % 1013}

def slow(batch):
    time.sleep(0.05)
    return batch

skate.data.DataContext.get_current().enable_progress_bars = False
skate.init(num_cpus=4, object_store_memory=1 << 30)
events = skate.data.range(20_000_000, override_num_blocks=120).map_batches(parse)
events.random_shuffle(seed=1).map_batches(slow).materialize()
"""


def look(pid: int) -> list[dict]:
    """Two looks, a second apart, when the run has gone on for a while."""
    before: dict = {"runs": []}
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        now = view.snapshot(pid)
        if now["runs"] and before["runs"] and now["runs"][-1]["seconds"] >= SECONDS:
            return [before, now]
        before = now
        time.sleep(1.0)  # what `skate top` does between two looks
    raise SystemExit("the program did not get there within two minutes")


def main(path: Path) -> None:
    folder = ROOT / "build" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "events.py").write_text(PROGRAM)
    p = subprocess.Popen(
        [sys.executable, "events.py"], cwd=folder, env={"PYTHONPATH": str(ROOT / "python")}
    )
    try:
        while not (Path(f"/proc/{p.pid}/cmdline").read_bytes()):
            pass
        for _ in range(1200):
            try:
                view.snapshot(p.pid)
                break
            except LookupError:  # it is starting
                time.sleep(0.05)
        before, now = look(p.pid)
    finally:
        p.kill()
        p.wait()
    for s in (before, now):
        s["program"] = "python events.py"
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False
    )
    console.print(screen.render(now, before, COLUMNS))
    svg = console.export_svg(title="skate top", unique_id="top")
    # The reader's own font: the page asks for nothing from elsewhere.
    path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".svg"))
