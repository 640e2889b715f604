"""read_lance: a Lance dataset, read by the package pylance; a unit is a few of its fragments. Lance
itself selects columns and applies the filter."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, Unpack

from skate.data.checks import library
from skate.data.files.local import local_path
from skate.data.read.options import ReadOptions, takes_read
from skate.data.read.source import Facts, Source, asked_blocks, min_units


@takes_read()
def read_lance(
    uri: str,
    *,
    version: int | str | None = None,
    columns: list[str] | None = None,
    filter: str | None = None,
    storage_options: dict[str, str] | None = None,
    scanner_options: dict[str, Any] | None = None,
    trust_pickled_columns: bool = False,
    **options: Unpack[ReadOptions],
) -> Source:
    """A Dataset of a Lance dataset. Needs the package pylance: ImportError without it.

    Args:
        uri: Path or URI of the Lance dataset.
        version: A version number or a tag; None: the newest.
        columns: Only these columns are read; None: all.
        filter: A condition in the SQL dialect of Lance.
        storage_options: Options of the storage, as Lance takes them.
        scanner_options: Other arguments of LanceDataset.scanner().
        trust_pickled_columns: True: Python objects that others have pickled into the files are
            unpickled, which runs whatever code the pickles name. False: the setting
            DataContext.trust_pickled_columns applies, whose default is not to unpickle them.
        options: See ReadOptions.
    """

    uri = local_path(uri) or uri
    scan = dict(scanner_options or {})
    for name, v in (("columns", columns), ("filter", filter)):
        if v is not None:
            scan[name] = v
    ds = library("lance", "read_lance", "pylance").dataset(
        uri, version=version, storage_options=storage_options
    )
    fragments = [(f.fragment_id, f.count_rows()) for f in ds.get_fragments()]
    n = len(fragments)
    k = min(n, asked_blocks(options) or 4 * min_units())
    parts = [fragments[i * n // k : (i + 1) * n // k] for i in range(k)]
    whole = scan.get("filter") is None and not scan.keys() & {"limit", "offset", "nearest"}
    schema = ds.scanner(**scan).projected_schema
    units = [
        (pickle.dumps([i for i, _ in p]), sum(r for _, r in p) if whole else -1, 1 << 20)
        for p in parts
    ]
    params = {
        "format": "lance",
        "uri": uri,
        "version": ds.version,
        "storage": storage_options,
        "options": scan,
        "trust_pickled_columns": trust_pickled_columns,
    }
    facts = Facts(sum(r for _, r in fragments) if whole else None, lambda: schema)
    return Source(
        "ReadLance",
        params,
        units,
        options,
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
