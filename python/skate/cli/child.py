"""Programs that `skate bench` and `skate doctor` run."""

from __future__ import annotations

import os
import subprocess
import sys

import skate


def run(
    *args: str, seconds: float, cwd: str | None = None, **env: str
) -> subprocess.CompletedProcess[str] | None:
    """Runs Python with these arguments, this skate, and `env` besides the environment; None if it has
    not ended in time."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(skate.__file__)))
    path = os.pathsep.join(filter(None, [here, *sys.path]))
    try:
        return subprocess.run(
            [sys.executable, *args],
            env={**os.environ, "PYTHONPATH": path, **env},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            cwd=cwd,
        )
    except subprocess.TimeoutExpired:
        return None


def why(p: subprocess.CompletedProcess[str]) -> str:
    """The last line that a child has written about its failure."""
    return (p.stderr.strip().splitlines() or [f"exit status {p.returncode}"])[-1]
