"""read_lance: a Lance dataset, by the package pylance; a unit is a few of its fragments. Columns
and filter are Lance's own work."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from skate.data.checks import library
from skate.data.files.local import local_path
from skate.data.read.source import Facts, ReadOptions, Source, check_num_blocks, min_units


def read_lance(
    uri: str,
    *,
    version: int | str | None = None,
    columns: list[str] | None = None,
    filter: str | None = None,  # noqa: A002
    storage_options: dict[str, str] | None = None,
    scanner_options: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    trust_pickled_columns: bool = False,
) -> Source:
    """A Dataset of a Lance dataset. Needs the package pylance: ImportError without it.

    Args:
        uri: Where it is.
        version: A number or a tag; None: the newest.
        columns: Only these; None: all.
        filter: A condition in Lance's SQL.
        storage_options: As Lance takes them.
        scanner_options: Other arguments of LanceDataset.scanner().
        ray_remote_args: Other options of the read tasks, as of skate.remote: resources,
            runtime_env, scheduling_strategy, max_retries, ...
        num_cpus: CPUs that each read task takes; None: 1.
        num_gpus: GPUs that each read task takes; None: none.
        memory: Bytes of memory that each read task reserves; None: none.
        concurrency: Read tasks at once, at most; None: as many as fit.
        override_num_blocks: Number of read tasks, at most; None: it follows from the bytes of the
            input.
        trust_pickled_columns: True: Python objects that others have pickled into the files are
            unpickled, which runs whatever code they name. False: as
            DataContext.trust_pickled_columns says, which is not to.
    """

    uri = local_path(uri) or uri
    options = dict(scanner_options or {})
    for name, v in (("columns", columns), ("filter", filter)):
        if v is not None:
            options[name] = v
    ds = library("lance", "read_lance", "pylance").dataset(
        uri, version=version, storage_options=storage_options
    )
    fragments = [(f.fragment_id, f.count_rows()) for f in ds.get_fragments()]
    n = len(fragments)
    k = min(
        n,
        check_num_blocks(override_num_blocks)
        if override_num_blocks is not None
        else 4 * min_units(),
    )
    parts = [fragments[i * n // k : (i + 1) * n // k] for i in range(k)]
    whole = options.get("filter") is None and not options.keys() & {"limit", "offset", "nearest"}
    schema = ds.scanner(**options).projected_schema
    units = [
        (pickle.dumps([i for i, _ in p]), sum(r for _, r in p) if whole else -1, 1 << 20)
        for p in parts
    ]
    params = {
        "format": "lance",
        "uri": uri,
        "version": ds.version,
        "storage": storage_options,
        "options": options,
        "trust_pickled_columns": trust_pickled_columns,
    }
    facts = Facts(sum(r for _, r in fragments) if whole else None, lambda: schema)
    return Source(
        "ReadLance",
        params,
        units,
        ReadOptions(concurrency, num_cpus, num_gpus, memory, ray_remote_args),
        facts,
    )


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    ids = pickle.loads(task.unit)
    task.source = f"{params['uri']} fragments {ids[0]}..{ids[-1]}"
    ds = library("lance", "read_lance", "pylance").dataset(
        params["uri"], version=params["version"], storage_options=params["storage"]
    )
    yield from ds.scanner(
        fragments=[ds.get_fragment(i) for i in ids], **params["options"]
    ).to_batches()
