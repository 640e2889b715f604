"""BatchFormat, under Ray's module name: the batch format of a user's own Preprocessor."""

from __future__ import annotations

import enum


class BatchFormat(enum.StrEnum):
    """The kind of a batch: a DataFrame, a pyarrow Table, or a dict of arrays."""

    PANDAS = "pandas"
    ARROW = "arrow"
    NUMPY = "numpy"
