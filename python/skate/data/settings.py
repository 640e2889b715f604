"""The settings of this process, below all that reads them: skate.data.context has what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.data.context import DataContext

current: DataContext | None = None  # None: nobody has asked for them yet, so they are the defaults
