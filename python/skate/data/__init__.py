"""skate.data: lazy tables, read, mapped and written by a streaming engine in C. Names and defaults are Ray Data's.

Example:
    >>> import skate
    >>> skate.data.range(1000).map_batches(lambda b: {"x": b["id"] ** 2}).filter(expr="x % 2 == 0").count()
    500
"""

# ruff: noqa: F405
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.data._public import *  # noqa: F403

__all__ = [
    "ActorPoolStrategy",
    "DataContext",
    "DataIterator",
    "Dataset",
    "ExecutionOptions",
    "ExecutionResources",
    "MaterializedDataset",
    "SaveMode",
    "Schema",
    "TaskPoolStrategy",
    "context",
    "from_arrow",
    "from_blocks",
    "from_items",
    "from_numpy",
    "from_pandas",
    "range",
    "range_tensor",
    "read_binary_files",
    "read_csv",
    "read_images",
    "read_json",
    "read_parquet",
    "read_text",
]


def __getattr__(name: str) -> Any:
    """Loads the package at the first use of a name: NumPy and Arrow take 0.15 s, and the engine's processes load them meanwhile."""
    import importlib

    _public = importlib.import_module("skate.data._public")  # its imports also bind the modules of the package
    if name in __all__:
        globals().update({n: getattr(_public, n) for n in __all__})
    if name in globals():
        return globals()[name]
    raise AttributeError(f"module 'skate.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
