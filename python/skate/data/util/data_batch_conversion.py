"""BatchFormat, under Ray's name of the module: what a Preprocessor of one's own says that it works
on."""

from __future__ import annotations

import enum


class BatchFormat(enum.StrEnum):
    """What a batch is: a DataFrame, a pyarrow Table, or a dict of arrays."""

    PANDAS = "pandas"
    ARROW = "arrow"
    NUMPY = "numpy"
