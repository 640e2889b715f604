"""The pictures of the site are what their command makes."""

import subprocess
import sys
from pathlib import Path

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images"


def test_the_pictures_of_the_concepts_are_up_to_date(tmp_path):
    """docs/images/concepts.py also refuses texts that do not fit into their boxes."""
    subprocess.run([sys.executable, IMAGES / "concepts.py", tmp_path], check=True)
    made = sorted(tmp_path.iterdir())
    assert len(made) == 7
    for path in made:
        assert (IMAGES / path.name).read_text() == path.read_text(), f"run {IMAGES}/concepts.py"
