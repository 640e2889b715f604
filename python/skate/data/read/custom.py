"""read_datasource: a Datasource of the user; each of its ReadTasks is one task here."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from typing import Any

from skate._deps import cloudpickle, inspect, pa
from skate.data import context, dataset
from skate.data.read.source import Facts, ReadOptions, Source, check_num_blocks, min_units
from skate.data.values import batch

LARGE_TASK = 1 << 20  # bytes


def read_datasource(
    datasource: Any,
    *,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    compute: Any = None,
    **read_args: Any,
) -> Source:
    """A Dataset of a Datasource that users write.

    Args:
        datasource: A skate.data.datasource.Datasource.
        parallelism: Ray's older name of override_num_blocks; -1: not given.
        num_cpus: CPUs that each read task takes; None: 1.
        num_gpus: GPUs that each read task takes; None: none.
        memory: Bytes of memory that each read task reserves; None: none.
        ray_remote_args: Other options of the read tasks, as of skate.remote: resources,
            runtime_env, scheduling_strategy, max_retries, ...
        concurrency: Read tasks at once, at most; None: as many as fit.
        override_num_blocks: How many ReadTasks to ask it for; None: as many as there are CPUs, at
            least.
        compute: An ActorPoolStrategy: the tasks run in a pool of actors; a TaskPoolStrategy: at
            most its size at once.
        read_args: Arguments of create_reader() or prepare_read() of older sources.

    Example:
        >>> import skate
        >>> from skate.data.datasource import RandomIntRowDatasource
        >>> skate.data.read_datasource(RandomIntRowDatasource(10, num_columns=2)).count()
        10
    """
    if override_num_blocks is None and parallelism > 0:
        override_num_blocks = parallelism
    k = (
        check_num_blocks(override_num_blocks)
        if override_num_blocks is not None
        else max(min_units(), context.DataContext.get_current().read_op_min_num_blocks)
    )
    asked = datasource.create_reader(**read_args) if datasource.should_create_reader else datasource

    def tasks() -> list[Any]:
        if datasource.should_create_reader:
            return list(asked.get_read_tasks(k))
        return list(asked.get_read_tasks(k, **_context_argument(asked)))

    def units(found: list[Any]) -> list[tuple[bytes, int, int]]:
        out = []
        largest = 0
        for t in found:
            m = getattr(t, "metadata", None)
            rows, size = (getattr(m, n, None) for n in ("num_rows", "size_bytes"))
            out.append((cloudpickle.dumps(t, 5), -1 if rows is None else rows, max(1, size or 1)))
            largest = max(largest, len(out[-1][0]))
        if largest > LARGE_TASK:
            warnings.warn(
                f"read_datasource: a ReadTask of {datasource.get_name()} has {largest >> 20:,} MiB when it is sent to a worker. Its function holds on to large objects: "
                "make them in the function, or hand them over with skate.put()",
                UserWarning,
                stacklevel=3,
            )
        return out

    first = tasks()
    known = [getattr(getattr(t, "metadata", None), "num_rows", None) for t in first]
    files = [
        f for t in first for f in getattr(getattr(t, "metadata", None), "input_files", None) or []
    ]
    schema = next((t.schema for t in first if getattr(t, "schema", None) is not None), None)
    limited = any(getattr(t, "per_task_row_limit", None) is not None for t in first)

    def each_run(i: int) -> dict[str, Any]:
        return {} if i == 0 else {"units": units(tasks())}

    more = dict(ray_remote_args or {})
    if isinstance(compute, dataset.TaskPoolStrategy):
        concurrency = compute.size if concurrency is None else concurrency
    elif isinstance(compute, dataset.ActorPoolStrategy) and concurrency is None:
        pool = dataset._pool("Read", compute, None, {})
        more["pool"] = (pool.min_size, pool.max_size)
    elif compute is not None and concurrency is None:
        raise ValueError(
            f"read_datasource: compute must be a TaskPoolStrategy or an ActorPoolStrategy, not {compute!r}"
        )
    arrow = schema if isinstance(schema, pa.Schema) else getattr(schema, "arrow", None)
    return Source(
        f"Read{datasource.get_name()}",
        {"format": "custom", "by_settings": True, "name": datasource.get_name()},
        units(first),
        ReadOptions(concurrency, num_cpus, num_gpus, memory, more),
        Facts(
            sum(known) if first and None not in known and not limited else None,
            (lambda: arrow) if arrow is not None else None,
            files,
        ),  # pyright: ignore[reportCallIssue, reportArgumentType]
        each_run=each_run if getattr(datasource, "_shuffle", None) is not None else None,
    )


def _context_argument(asked: Any) -> dict[str, Any]:
    """Sources of different ages take data_context or do not."""
    p = inspect.signature(asked.get_read_tasks).parameters
    return {"data_context": context.DataContext.get_current()} if "data_context" in p else {}


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    t = pickle.loads(task.unit)
    task.source = params["name"]
    for block in t():
        yield from batch.from_batch(block, f"Read{params['name']}")
