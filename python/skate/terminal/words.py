"""Texts for users: bytes, seconds, and labels that are too long for a line."""

from __future__ import annotations


def nbytes(n: float | None) -> str:
    """A number of bytes as text."""
    if n is None:
        return "-"
    n = float(n)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(n) < 1024 or unit == "TiB":
            return f"{n:.0f} {unit}" if unit == "B" or n >= 100 else f"{n:.1f} {unit}"
        n /= 1024
    raise AssertionError


def seconds(ns: float | None) -> str:
    """A number of nanoseconds as text."""
    if ns is None or ns < 0:
        return "-"
    s = ns / 1e9
    return f"{s:.2f} s" if s >= 1 else f"{s * 1e3:.1f} ms" if s >= 1e-3 else f"{s * 1e6:.0f} us"


def short(label: str, n: int = 120) -> str:
    """The label of a long chain of operators, without its middle."""
    return label if len(label) <= n else f"{label[: n // 2]}…{label[-(n // 2 - 1) :]}"


def clock(seconds: float) -> str:
    """A number of seconds as 0:00:05."""
    m, s = divmod(int(seconds + 0.5), 60)
    return f"{m // 60}:{m % 60:02}:{s:02}"
