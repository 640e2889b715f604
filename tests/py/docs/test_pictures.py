"""The pictures of the site are what their command makes."""

import json
import re
import subprocess
import sys
from pathlib import Path

from scripts import script

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "page"))
from fake import Fake  # noqa: E402

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images"


def test_the_pictures_of_the_concepts_are_up_to_date(tmp_path):
    """docs/images/concepts.py also refuses texts that do not fit into their boxes."""
    subprocess.run([sys.executable, IMAGES / "concepts.py", tmp_path], check=True)
    made = sorted(tmp_path.iterdir())
    assert len(made) == 7
    for path in made:
        assert (IMAGES / path.name).read_text() == path.read_text(), f"run {IMAGES}/concepts.py"


def replayed(text):
    """(the head, the lines of the terminal after each frame) of a recording."""
    head, *frames = map(json.loads, text.splitlines())
    lines, seen = {}, []
    for _, kind, data in frames:
        assert kind == "o" and "\n" not in data
        for row, written in re.findall(r"\x1b\[(\d+);1H(.*?)(?=\x1b\[\d+;1H|$)", data):
            lines[int(row)] = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written).rstrip()
        seen.append("\n".join(lines[i] for i in sorted(lines)).rstrip())
    return head, [t for t, _, _ in frames], seen


def test_a_recording_shows_what_top_shows():
    top = script("docs/images/top.py")
    source = Fake()
    looks = [source.snapshot()]
    for _ in range(3):
        source.step(0.2)
        looks.append(source.snapshot())
    looks.append({**looks[-1], "runs": []})  # fewer lines than before
    head, times, seen = replayed(top.cast(looks))
    assert (head["version"], head["width"], times) == (2, top.COLUMNS, [0, 1, 2, 3, 4])
    for now, before, shown in zip(looks, [None, *looks], seen, strict=False):
        console = top.Console(width=top.COLUMNS, file=top.io.StringIO(), highlight=False)
        console.print(top.screen.render(now, before, top.COLUMNS))
        want = [line.rstrip() for line in console.file.getvalue().splitlines()[: top.LINES]]
        assert shown == "\n".join(want).rstrip()


def test_the_recording_of_the_guide():
    path = IMAGES / "top.cast"
    assert path.stat().st_size <= 60 << 10
    _, times, seen = replayed(path.read_text())
    assert len(times) >= 5 and times == list(range(len(times)))
    assert all("python events.py" in s and "Dataset 1" in s for s in seen)
