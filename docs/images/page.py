"""The pictures of the page of a run, page-light.png and page-dark.png: `python docs/images/page.py
[FOLDER]` runs a program with SKATE_PAGE=1 and takes them in the middle of the run, in Debian's
Chromium. `./dev page --shots` installs what it needs."""

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = os.environ.get("SKATE_TEST_CHROMIUM", "/usr/bin/chromium")

# It finds labels of 60,000 images, and writes them in the order of the labels.
PROGRAM = """
import sys
import numpy as np
import skate
import skate.data as sd

def decode(batch):
    rng = np.random.default_rng(int(batch["id"][0]))
    pixels = rng.integers(0, 255, (len(batch["id"]), 24, 24, 3), np.uint8)
    return {"id": batch["id"], "pixels": np.sort(pixels, axis=1)}

def normalise(batch):
    return {"id": batch["id"], "x": batch["pixels"].reshape(len(batch["id"]), -1) / np.float32(255)}

class Classifier:  # layers of random weights
    def __init__(self):
        rng = np.random.default_rng(0)
        self.layers = [rng.normal(size=(1728, 1728)).astype(np.float32) for _ in range(4)]

    def __call__(self, batch):
        x = batch["x"]
        for w in self.layers:
            x = np.tanh(x @ w)
        return {"id": batch["id"], "label": x[:, :10].argmax(axis=1), "score": x.max(axis=1)}

skate.init(num_cpus=2, object_store_memory=1 << 30)
images = sd.range(60_000, override_num_blocks=240).map_batches(decode, batch_size=250)
labels = images.map_batches(normalise, batch_size=250).map_batches(Classifier, batch_size=250, concurrency=1)
labels.sort(["label", "score"]).write_parquet(sys.argv[1])
"""


def main(folder=str(ROOT / "docs" / "images")):
    with tempfile.TemporaryDirectory() as room, sync_playwright() as p:
        (Path(room) / "classify.py").write_text(PROGRAM)
        program = subprocess.Popen(
            [sys.executable, "classify.py", "labels"],
            cwd=room,
            env={**os.environ, "SKATE_PAGE": "1", "PYTHONPATH": str(ROOT / "python")},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert program.stderr is not None
        url = re.findall(r"http://\S+", program.stderr.readline())[0]
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tabs = {}
        for scheme in ("light", "dark"):
            tabs[scheme] = browser.new_page(
                viewport={"width": 1280, "height": 800}, color_scheme=scheme
            )
            tabs[scheme].goto(url)
        for scheme, tab in tabs.items():
            half = re.compile(r"^[4-9]\d %$")
            expect(tab.locator("#share")).to_have_text(half, timeout=300_000)
            picture = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
            # 256 colours are a third of the bytes, and look the same
            picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
                Path(folder) / f"page-{scheme}.png", optimize=True
            )
        browser.close()
        assert program.wait() == 0, program.stderr.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
