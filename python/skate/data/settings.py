"""The current settings of this process, at a level that all modules may read; the class is in
skate.data.context."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.data.context import DataContext

current: DataContext | None = None  # None: not yet requested, so the defaults hold
