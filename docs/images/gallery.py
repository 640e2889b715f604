"""The pictures of docs/gallery: `python docs/images/gallery.py [EXAMPLE...]` runs each example with
--plot, and writes docs/images/gallery-<example>.svg (.jpg, .png for pictures of pixels)."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = {
    "clean_jsonl": "svg",
    "crawler": "svg",
    "hyperparameters": "svg",
    "image_search": "jpg",
    "large_sort": "svg",
    "model_pipeline": "svg",
    "near_duplicates": "svg",
    "page_views": "png",
    "parameter_server": "svg",
    "sessions": "svg",
    "train_cnn": "svg",  # needs torch
}

for name in sys.argv[1:] or EXAMPLES:
    out = HERE / f"gallery-{name}.{EXAMPLES[name]}"
    print(name, flush=True)
    subprocess.run(
        [sys.executable, HERE.parents[1] / "examples" / f"{name}.py", "--plot", out], check=True
    )
