"""The pictures of `skate top`: `python docs/images/top.py [FILE]` runs a program, looks at it every
second as `skate top` does, and writes what the terminal shows: FILE.svg after some seconds, and
FILE.cast, the whole run as a recording for `asciinema play` (asciicast, version 2)."""

import io
import json
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
LOOKS = 40  # the most of a recording
LINES = 30  # of the recording's terminal

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


def looks(pid: int) -> list[dict]:
    """What is seen each second, from the beginning of the run to its end."""
    seen: list[dict] = []
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and len(seen) < LOOKS:
        try:
            now = view.snapshot(pid)
        except LookupError:
            if seen:  # it has ended
                return seen
            time.sleep(0.05)  # it is starting
            continue
        if now["runs"]:
            seen.append(now)
            time.sleep(1.0)  # what `skate top` does between two looks
    return seen


def svg(now: dict, before: dict) -> str:
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False
    )
    console.print(screen.render(now, before, COLUMNS))
    made = console.export_svg(title="skate top", unique_id="top")
    # The reader's own font: the page asks for nothing from elsewhere.
    return re.sub(r"@font-face \{.*?\}\s*", "", made, flags=re.DOTALL)


def cast(seen: list[dict]) -> str:
    """A recording with a frame a second. Of each frame only the lines that have changed are
    written."""
    head = {"version": 2, "width": COLUMNS, "height": LINES, "title": "skate top"}
    rows: list[str] = [json.dumps(head)]
    shown: list[str] = []
    before = None
    for second, now in enumerate(seen):
        out = io.StringIO()
        console = Console(
            width=COLUMNS,
            file=out,
            force_terminal=True,
            color_system="standard",
            highlight=False,
        )
        console.print(screen.render(now, before, COLUMNS))
        lines = out.getvalue().splitlines()[:LINES]
        text = "" if shown else "\x1b[?25l\x1b[2J"
        for i in range(max(len(lines), len(shown))):
            line = lines[i] if i < len(lines) else ""
            if i >= len(shown) or shown[i] != line:
                text += f"\x1b[{i + 1};1H{line}\x1b[K"
        if second == len(seen) - 1:
            text += f"\x1b[{len(lines) + 1};1H\x1b[?25h"
        rows.append(json.dumps([second, "o", text], ensure_ascii=False))
        shown, before = lines, now
    return "\n".join(rows) + "\n"


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
        seen = looks(p.pid)
    finally:
        p.kill()
        p.wait()
    for s in seen:
        s["program"] = "python events.py"
    at = next((i for i, s in enumerate(seen) if s["runs"][-1]["seconds"] >= SECONDS), 0)
    if not at:
        raise SystemExit("the program did not get there")
    for end, text in ((".svg", svg(seen[at], seen[at - 1])), (".cast", cast(seen))):
        path.with_suffix(end).write_text(text)
        print(path.with_suffix(end))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else __file__))
