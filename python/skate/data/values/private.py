"""Memory of arrays that this process may write without an effect on others: pages over the store
that are copied when they are written (copy-on-write)."""

from __future__ import annotations

import weakref
from typing import Any

from skate import _skate
from skate._deps import mmap, np

_mapped: weakref.WeakValueDictionary[int, Mapped] = weakref.WeakValueDictionary()


class Mapped(mmap.mmap):
    """A block of another process's store, mapped copy-on-write in this process.

    Args:
        fd, at, size: The file, the offset of the block in the file, and the block's bytes.
    """

    base: int
    first: int  # offset of the block in the mapping, in bytes
    freed: Any = None  # called when the last array over the block is gone

    def __new__(cls, fd: int, at: int, size: int) -> Mapped:
        start = at - at % mmap.ALLOCATIONGRANULARITY
        self = super().__new__(
            cls,
            fd,
            at - start + size,
            flags=mmap.MAP_PRIVATE,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
            offset=start,
        )
        self.first = at - start
        self.base = np.frombuffer(self, np.uint8).__array_interface__["data"][0]
        _mapped[self.base] = self
        return self

    def block(self) -> Any:
        """The record batch in the block."""
        return _skate.block(memoryview(self)[self.first :], self)

    def __del__(self) -> None:
        if self.freed is not None:
            self.freed()


def pages_of(v: Any) -> Any:
    """The bytes of a C-contiguous array as writable memory; None: this needs a copy."""
    pages = _skate.own_pages(v)
    if pages is not None or not _mapped:
        return pages
    at = v.__array_interface__["data"][0]
    for base, m in list(_mapped.items()):
        if base <= at and at + v.nbytes <= base + len(m):
            return memoryview(m)[at - base : at - base + v.nbytes]
    return None
