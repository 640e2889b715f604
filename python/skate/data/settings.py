"""The current settings of this process, in a module that all others may import; their class is in
skate.data.context."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.data.context import DataContext

current: DataContext | None = None  # None: no context was made yet, so the defaults apply
