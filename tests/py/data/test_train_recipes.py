"""The single-process examples/train_*.py: a plain loop, Lightning, Hugging Face's Trainer. A run
that was stopped and resumed ends with the same result as an undisturbed one."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def run(example, checkpoint, *args):
    command = [sys.executable, str(EXAMPLES / example), "--checkpoint", str(checkpoint), *args]
    p = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert p.returncode == 0, p.stdout + p.stderr
    steps, end = re.search(r"^(\d+) steps, (.*weights \S+)$", p.stdout, re.MULTILINE).groups()
    return int(steps), end


@pytest.mark.slow
@pytest.mark.parametrize(
    "example, needs",
    [
        ("train_loop.py", ["torch"]),
        ("train_lightning.py", ["lightning"]),
        ("train_transformers.py", ["transformers", "accelerate"]),
    ],
)
def test_stopped_and_gone_on_with_is_as_one_run(tmp_path, example, needs):
    for name in needs:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    steps, end = run(example, tmp_path / "whole")
    assert steps == 96
    assert run(example, tmp_path / "two", "--stop-after", "31")[0] == 31
    assert run(example, tmp_path / "two") == (65, end)
