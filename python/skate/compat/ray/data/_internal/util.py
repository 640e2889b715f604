"""Small functions that programs in Ray's documentation and release tests use."""

from __future__ import annotations

from typing import Any

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30


def _check_pyarrow_version() -> None:
    """Does nothing: skate's dependencies require a version of pyarrow that works."""


def is_null(value: Any) -> bool:
    """Whether a value is None, or not a number (NaN).

    Args:
        value: Of any type.
    """
    return (
        value is None
        or bool(isinstance(value, float) and value != value)
        or type(value).__name__ in ("NAType", "NaTType")
    )


def rows_same(actual: Any, expected: Any) -> bool:
    """Whether two DataFrames have the same rows, in whatever order of rows and columns.

    Args:
        actual: The first DataFrame.
        expected: The second DataFrame.
    """
    if set(actual.columns) != set(expected.columns) or len(actual) != len(expected):
        return False

    def counted(df: Any) -> dict[tuple[Any, ...], int]:
        out: dict[tuple[Any, ...], int] = {}
        for row in df[sorted(df.columns)].itertuples(index=False):
            key = tuple(
                None if is_null(v) else repr(v) if not getattr(v, "__hash__", None) else v
                for v in row
            )
            out[key] = out.get(key, 0) + 1
        return out

    return counted(actual) == counted(expected)
