"""examples/train_ddp.py under torchrun, with gloo, on 2 and 4 ranks: a run that was stopped and
resumed ends with the same result as an undisturbed one."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "train_ddp.py"


def run(checkpoint, *args):
    p = subprocess.run(
        [sys.executable, str(EXAMPLE), "--checkpoint", str(checkpoint), *args],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert p.returncode == 0, p.stdout + p.stderr
    return re.search(
        r"(\d+) ranks, (\d+) steps, (\d+) rows, loss (\S+), weights (\S+)", p.stdout
    ).groups()


@pytest.mark.slow
def test_stopped_and_gone_on_with_is_as_one_run(tmp_path):
    whole = run(tmp_path / "whole")
    assert whole[:3] == ("2", "48", "1920")
    first = run(tmp_path / "two", "--stop-after", "31")
    assert first[:3] == ("2", "31", "1240")
    rest = run(tmp_path / "two")
    assert rest[:3] == ("2", "17", "680") and rest[3:] == whole[3:]


@pytest.mark.slow
def test_another_number_of_ranks_goes_on(tmp_path):
    run(tmp_path / "c", "--stop-after", "6", "--epochs", "1")
    rest = run(tmp_path / "c", "--ranks", "4", "--epochs", "1")
    assert rest[:3] == ("4", "9", "720"), "960 rows, of which 2 ranks had 240"
