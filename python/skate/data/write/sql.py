"""Inserts rows into a database over DB-API: executemany() of an INSERT, one transaction for each
task."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from skate.data.values import row_dicts
from skate.data.write.reports import report

ROWS = 4096


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    c = pickle.loads(params["connect"])()
    rows = 0
    try:
        cursor = c.cursor()
        for rb in batches:
            for at in range(0, rb.num_rows, ROWS):
                part = rb.slice(at, ROWS)
                cursor.executemany(
                    params["sql"], list(zip(*row_dicts.to_columns(part), strict=True))
                )
                rows += part.num_rows
        c.commit()
    except BaseException:
        c.rollback()
        raise
    finally:
        c.close()
    yield report([("", rows, 0)] if rows else [])
