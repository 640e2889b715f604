"""The types of arguments and results of skate.data, for type checkers and editors. No module
imports this one at run time."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Literal, TypeAlias

from skate._deps import np

if TYPE_CHECKING:
    from skate.data.dataset import ActorPoolStrategy, TaskPoolStrategy
    from skate.data.datasource import FileShuffleConfig
    from skate.data.exchange_strategy import ExchangeStrategy
    from skate.data.random_config import RandomSeedConfig

    Compute: TypeAlias = TaskPoolStrategy | ActorPoolStrategy | None
    Shuffle: TypeAlias = Literal["files"] | FileShuffleConfig | None
    Seed: TypeAlias = int | RandomSeedConfig | None
    Strategy: TypeAlias = ExchangeStrategy | str | None
    NumpyBatch: TypeAlias = dict[str, np.ndarray[Any, Any]]

Row: TypeAlias = dict[str, Any]
# A function, whose parameters behind the first one are fn_args and fn_kwargs, or a class with
# __call__. From the first type of a union, checkers know the parameter of a lambda; from
# Callable[..., Any] it is Unknown. With one Callable only, mypy refuses lambdas of two parameters.
RowFunction: TypeAlias = (
    Callable[Concatenate[Row, ...], Any] | Callable[Concatenate[Any, ...], Any] | type[Any]
)
BatchFunction: TypeAlias = Callable[[Any], Any] | Callable[Concatenate[Any, ...], Any] | type[Any]
BatchFormat: TypeAlias = Literal["default", "numpy", "pandas", "pyarrow"] | None
OnError: TypeAlias = Literal["raise", "skip", "quarantine"] | None
Concurrency: TypeAlias = int | tuple[int, int] | tuple[int, int, int] | None
FileSystem: TypeAlias = Any  # a pyarrow.fs.FileSystem or a file system of fsspec
Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Path: TypeAlias = str | os.PathLike[str]
Mode: TypeAlias = Literal["append", "overwrite", "error", "ignore"] | Any  # or a SaveMode
