"""The order of keys as docs/design/kernels.md defines it, over rows that are dicts, for tests that
do not use blocks."""

import functools


@functools.total_ordering
class _Reversed:
    def __init__(self, v):
        self.v = v

    def __eq__(self, other):
        return self.v == other.v

    def __lt__(self, other):
        return other.v < self.v


def cell(v, descending):
    """The sort key for Python: values, then NaN, then nulls, in either direction."""
    if v is None:
        return (2,)
    if v != v:
        return (1,)
    if isinstance(v, str):
        v = v.encode()
    return (0, _Reversed(v) if descending else v)


def in_order(rows, keys, descending):
    """The rows, sorted by these keys, each with its direction; rows with equal keys keep their
    order."""
    return sorted(
        rows, key=lambda row: [cell(row[k], d) for k, d in zip(keys, descending, strict=True)]
    )
