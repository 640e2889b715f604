"""read_datasource: reads from a Datasource of the user; each of its ReadTasks becomes one task."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from skate._deps import cloudpickle, inspect, pa
from skate.data import context, dataset
from skate.data.arguments import others
from skate.data.read.options import ReadOptions, takes_read
from skate.data.read.source import Facts, Source, asked_blocks, min_units
from skate.data.values import batch

if TYPE_CHECKING:
    from skate.data.read.options import OpenReadOptions

LARGE_TASK = 1 << 20  # bytes


@takes_read(rest="read_args")
def read_datasource(
    datasource: Any,
    *,
    compute: Any = None,
    **options: Unpack[OpenReadOptions],
) -> Source:
    """A Dataset that reads from a Datasource, a class that users write.

    Args:
        datasource: A skate.data.datasource.Datasource.
        override_num_blocks: The number of ReadTasks that the Datasource is asked for; None: at
            least the number of CPUs.
        compute: An ActorPoolStrategy: the tasks run in a pool of actors; a TaskPoolStrategy: its
            size is the maximum number of tasks at once.
        options: See ReadOptions.
        read_args: Arguments of create_reader() or prepare_read() of Datasources in Ray's older
            form.

    Example:
        >>> import skate
        >>> from skate.data.datasource import RandomIntRowDatasource
        >>> skate.data.read_datasource(RandomIntRowDatasource(10, num_columns=2)).count()
        10
    """
    read_args = others(options, ReadOptions)
    k = asked_blocks(options) or max(
        min_units(), context.DataContext.get_current().read_op_min_num_blocks
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
    known: list[Any] = [getattr(getattr(t, "metadata", None), "num_rows", None) for t in first]
    files = [
        f for t in first for f in getattr(getattr(t, "metadata", None), "input_files", None) or []
    ]
    schema = next((t.schema for t in first if getattr(t, "schema", None) is not None), None)
    limited = any(getattr(t, "per_task_row_limit", None) is not None for t in first)

    def each_run(i: int) -> dict[str, Any]:
        return {} if i == 0 else {"units": units(tasks())}

    if compute is not None and options.get("concurrency") is None:
        if isinstance(compute, dataset.TaskPoolStrategy):
            options["concurrency"] = compute.size
        elif isinstance(compute, dataset.ActorPoolStrategy):
            pool = dataset._pool("Read", compute, None, {})
            more = options.get("ray_remote_args") or {}
            options["ray_remote_args"] = {**more, "pool": (pool.min_size, pool.max_size)}
        else:
            raise ValueError(
                f"read_datasource: compute must be a TaskPoolStrategy or an ActorPoolStrategy, not {compute!r}"
            )
    arrow = schema if isinstance(schema, pa.Schema) else getattr(schema, "arrow", None)
    return Source(
        f"Read{datasource.get_name()}",
        {"format": "custom", "by_settings": True, "name": datasource.get_name()},
        units(first),
        options,
        Facts(
            sum(known) if first and None not in known and not limited else None,
            (lambda: arrow) if arrow is not None else None,
            files,
        ),
        each_run=each_run if getattr(datasource, "_shuffle", None) is not None else None,
    )


def _context_argument(asked: Any) -> dict[str, Any]:
    """Passes data_context only to Datasources whose methods have such a parameter (older ones do
    not)."""
    p = inspect.signature(asked.get_read_tasks).parameters
    return {"data_context": context.DataContext.get_current()} if "data_context" in p else {}


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    t = pickle.loads(task.unit)
    task.source = params["name"]
    for block in t():
        yield from batch.from_batch(block, f"Read{params['name']}")
