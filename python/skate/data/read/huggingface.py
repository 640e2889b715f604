"""Hugging Face iterable datasets, in the worker; see from_huggingface in others.py."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    from skate.data.batch import from_table

    task.source = "the dataset"
    for table in pickle.loads(params["fn"]).with_format("arrow").iter(batch_size=1000):
        yield from from_table(table)
