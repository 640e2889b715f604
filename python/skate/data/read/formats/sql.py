"""read_sql: rows of a query over a DB-API connection.

One task reads all rows, in batches. If shard_keys are given, several tasks each query a share of
the rows, by a hash of the keys.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any, Unpack

from skate._deps import cloudpickle, logging
from skate.data.read.options import ReadOptions, takes_read
from skate.data.read.source import Facts, Source, asked_blocks
from skate.data.values import batch, unify

ROWS = 4096  # the rows that one fetch gets


@takes_read()
def read_sql(
    sql: str,
    connection_factory: Callable[[], Any],
    *,
    sql_params: Any = None,
    shard_keys: list[str] | None = None,
    shard_hash_fn: str = "MD5",
    **options: Unpack[ReadOptions],
) -> Source:
    """A Dataset of the rows of a query.

    Args:
        sql: The query.
        connection_factory: A function without arguments that opens a DB-API connection; it is
            called in the workers.
        sql_params: Parameters of the query, as the driver's execute() takes them.
        shard_keys: The columns by whose hash the rows are divided among the tasks.
        shard_hash_fn: The name of the SQL function that hashes, from text to text or int ("MD5",
            "unistr", "ABS"...).
        override_num_blocks: Number of tasks; more than one needs shard_keys and a database that can
            hash, else ValueError. None: one.
        options: See ReadOptions.

    Example:
        >>> import sqlite3, skate, tempfile, os
        >>> db = os.path.join(tempfile.mkdtemp(), "x.db")
        >>> with sqlite3.connect(db) as c:
        ...     _ = c.execute("create table t(a)"), c.execute("insert into t values (1), (2)")
        >>> skate.data.read_sql(
        ...     "select a from t order by a", lambda: sqlite3.connect(db)
        ... ).take_all()
        [{'a': 1}, {'a': 2}]
    """
    n = asked_blocks(options) or 1
    queries = [sql]
    if n > 1:
        if not shard_keys:
            raise ValueError(
                "read_sql: more than one block needs shard_keys, the columns by whose hash the rows are split; leave override_num_blocks out"
            )
        key = shard_keys[0] if len(shard_keys) == 1 else f"CONCAT({','.join(shard_keys)})"
        queries = [
            f"SELECT * FROM ({sql}) as T WHERE MOD(ABS({shard_hash_fn}({key})), {n}) = {i}"
            for i in range(n)
        ]
        if not _runs(connection_factory, queries[0], sql_params):
            queries = [sql]
    units = [(pickle.dumps(q), -1, 1 << 20) for q in queries]
    params = {"format": "sql", "fn": cloudpickle.dumps(connection_factory), "args": sql_params}
    return Source(
        "ReadSQL",
        params,
        units,
        options,
        Facts(),
    )


def _runs(connect: Callable[[], Any], query: str, params: Any) -> bool:
    """Whether the database accepts a query (not all have MD5 or CONCAT)."""
    c = connect()
    try:
        _execute(c.cursor(), f"SELECT * FROM ({query}) as T2 WHERE 1 = 0", params)
        return True
    except Exception as e:  # each driver has its own error classes
        logging.getLogger("ray.data").info(
            "read_sql: this database cannot split the query (%s: %s); one task reads all",
            type(e).__name__,
            e,
        )
        return False
    finally:
        c.close()


def _execute(cursor: Any, sql: str, params: Any) -> None:
    cursor.execute(sql) if params is None else cursor.execute(sql, params)


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    sql = pickle.loads(task.unit)
    task.source = sql if len(sql) <= 80 else sql[:77] + "..."
    c = pickle.loads(params["fn"])()
    try:
        cursor = c.cursor()
        _execute(cursor, sql, params["args"])
        names = [d[0] for d in cursor.description or ()]
        unify.check_names(names, "read_sql (name them with AS)")
        while rows := cursor.fetchmany(ROWS):
            yield from batch.from_batch(
                {n: list(v) for n, v in zip(names, zip(*rows, strict=True), strict=True)},
                "read_sql",
            )
    finally:
        c.close()
