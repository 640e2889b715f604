"""Reads Hugging Face iterable datasets in the worker; see from_huggingface in others.py."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from skate.data.values import to_arrow


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    task.source = "the dataset"
    for table in pickle.loads(params["fn"]).with_format("arrow").iter(batch_size=1000):
        yield from to_arrow.from_table(table)
