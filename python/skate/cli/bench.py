"""`skate bench`: times a few workloads on this machine, beside the other engines that are
installed. Each measurement is a process of its own (workloads.py), and the engines take turns."""

import argparse
import os
import statistics
import sys
from collections.abc import Iterator
from typing import Any

import skate
from skate import _did_you_mean, config
from skate._deps import (
    importlib_metadata,
    importlib_util,
    json,
    np,
    pa,
    platform,
    pq,
    pyplot,
    tempfile,
)
from skate.cli import child, out

EXAMPLES = """
skate bench
skate bench --rows 10000000 --only sort,join --plot bench.svg
skate bench --engines skate,polars --json
"""

# workload: what it does
WORKLOADS = {
    "random_shuffle": "all rows in random order",
    "groupby": "the sum of a column for each of 10,000 keys",
    "sort": "all rows by a column of random numbers",
    "join": "inner join with a table of as many rows, half of which match",
    "first_rows": "the first 1,000 rows through a Python function",
}
# engine: (its package, its workloads)
ENGINES = {
    "skate": ("skate", tuple(WORKLOADS)),
    "polars": ("polars", tuple(WORKLOADS)),
    "duckdb": ("duckdb", tuple(WORKLOADS)),
    "ray": ("ray", tuple(WORKLOADS)),
    "dataloader": ("torch", ("random_shuffle", "first_rows")),
}
FILES = 8
KEYS = 10_000


def _names(known: Any) -> Any:
    """The type of an argument that is a list of names, separated by commas."""

    def names(text: str) -> list[str]:
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"no {name!r} here{_did_you_mean.meant(name, known)}"
                )
        return text.split(",")

    return names


def _count(text: str) -> int:
    return max(1, int(out.number(text)))


def arguments(parser: argparse.ArgumentParser) -> None:
    what = "; ".join(f"{name}: {about}" for name, about in WORKLOADS.items())
    parser.description = (
        "Times small workloads over Parquet files that it makes: " + what + ". The engines are "
        "skate and those of Polars, DuckDB, Ray and PyTorch's DataLoader that are installed here. "
        "Each measurement is a new process, and is the time from a plan to its result in memory: "
        "imports and the start of an engine come before. The engines take turns, each result is "
        "checked, and the table has medians, with the fastest and the slowest run."
    )
    parser.add_argument(
        "--rows",
        metavar="N",
        type=_count,
        default=1_000_000,
        help="rows of the table (default: 1000000)",
    )
    parser.add_argument(
        "--rounds", metavar="N", type=_count, default=3, help="measurements of each (default: 3)"
    )
    parser.add_argument(
        "--cpus",
        metavar="N",
        type=_count,
        default=config.cpus(),
        help="CPUs for each engine (default: those that this process may use)",
    )
    parser.add_argument(
        "--only",
        metavar="NAMES",
        type=_names(WORKLOADS),
        default=list(WORKLOADS),
        help="workloads, separated by commas (default: all)",
    )
    parser.add_argument(
        "--engines",
        metavar="NAMES",
        type=_names(ENGINES),
        help="engines, separated by commas (default: those that are installed)",
    )
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=out.number,
        default=600.0,
        help="seconds that one measurement may take (default: 600)",
    )
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the table into a PNG, SVG or PDF file (needs matplotlib)",
    )
    out.add_json(parser)


def run(args: argparse.Namespace) -> int:
    engines = args.engines or [e for e, (package, _) in ENGINES.items() if _version(package)]
    missing = [e for e in engines if not _version(ENGINES[e][0])]
    if missing:
        raise out.Refused(f"{missing[0]} is not installed: pip install {ENGINES[missing[0]][0]}")
    if args.plot and importlib_util.find_spec("matplotlib") is None:
        raise out.Refused("--plot needs matplotlib: pip install matplotlib")
    pairs = [(w, e) for w in args.only for e in engines if w in ENGINES[e][1]]
    times: dict[tuple[str, str], list[float]] = {pair: [] for pair in pairs}
    failed: dict[tuple[str, str], str] = {}
    with tempfile.TemporaryDirectory(prefix="skate-bench-") as folder:
        make(folder, args.rows)
        for turn in range(args.rounds):
            for w, e in pairs:
                if (w, e) in failed:
                    continue
                _say(f"round {turn + 1} of {args.rounds}: {w}, {e}")
                try:
                    times[w, e].append(_measure(e, w, folder, args))
                except out.Refused as why:
                    failed[w, e] = str(why)
    _say("")
    found = {
        "machine": f"{platform.machine()}, {args.cpus} CPUs, {config.memory_bytes() / 2**30:.0f} GiB",
        "rows": args.rows,
        "versions": {e: _version(ENGINES[e][0]) for e in engines},
        "results": [_result(*pair, times[pair], failed.get(pair)) for pair in pairs],
    }
    if args.plot:
        _plot(found, engines, args.plot)
    if args.json:
        out.as_json(found)
    else:
        _show(found, args.only, engines)
    return int(bool(failed))


def _version(package: str) -> str:
    """The version of a package; "" if it is not installed."""
    if package == "skate":
        return skate.__version__
    try:
        return importlib_metadata.version(package)
    except importlib_metadata.PackageNotFoundError:
        return ""


def _say(text: str) -> None:
    """Shows on a terminal what is measured now."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def make(folder: str, rows: int) -> None:
    """Makes the files of the two tables. Sums of `v` say whether a result is right."""
    rng = np.random.default_rng(1)
    for part, ids in enumerate(np.array_split(np.arange(rows), FILES)):
        left = {"id": ids, "key": ids * 2654435761 % KEYS, "r": rng.random(len(ids)), "v": ids}
        for name, table in (("left", left), ("right", {"id": ids * 2, "w": ids})):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
            pq.write_table(pa.table(table), os.path.join(folder, name, f"{part}.parquet"))


def _measure(engine: str, workload: str, folder: str, args: argparse.Namespace) -> float:
    """Seconds of one measurement. Refused: it failed, with the reason."""
    n = str(args.cpus)
    p = child.run(
        *("-m", "skate.cli.workloads", engine, workload, folder, n),
        seconds=args.timeout,
        cwd=folder,
        POLARS_MAX_THREADS=n,
        RAY_DEDUP_LOGS="0",
    )
    if p is None:
        raise out.Refused(f"no result within {args.timeout:g} s")
    if p.returncode:
        raise out.Refused(child.why(p))
    return float(json.loads(p.stdout.splitlines()[-1])["seconds"])


def _result(workload: str, engine: str, times: list[float], failed: str | None) -> dict[str, Any]:
    return {
        "workload": workload,
        "engine": engine,
        "seconds": times,
        "median": statistics.median(times) if times and failed is None else None,
        "error": failed,
    }


def _cells(found: dict[str, Any], engines: list[str], workload: str) -> Iterator[str]:
    by = {(r["workload"], r["engine"]): r for r in found["results"]}
    for e in engines:
        r = by.get((workload, e))
        if r is None:
            yield "-"
        elif r["median"] is None:
            yield "failed"
        else:
            yield f"{r['median']:.3g} [{min(r['seconds']):.3g}..{max(r['seconds']):.3g}]"


def _show(found: dict[str, Any], workloads: list[str], engines: list[str]) -> None:
    console = out.console()
    title = f"seconds for {found['rows']:,} rows: median [fastest..slowest]; {found['machine']}"
    rows = [[w, *_cells(found, engines, w)] for w in workloads]
    console.print(out.plain(title))
    console.print(out.table(["<workload", *engines], rows))
    console.print(out.plain(", ".join(f"{e} {v}" for e, v in found["versions"].items())))
    for r in found["results"]:
        if r["error"]:
            console.print(out.plain(f"{r['workload']}, {r['engine']}: {r['error']}"))


def _plot(found: dict[str, Any], engines: list[str], path: str) -> None:
    """Draws the medians as bars, into a file."""
    os.environ["MPLBACKEND"] = "agg"  # which needs no display
    names = list(dict.fromkeys(r["workload"] for r in found["results"]))
    fig, ax = pyplot.subplots(
        figsize=(8, 1 + 0.3 * len(engines) * len(names)), layout="constrained"
    )
    for i, e in enumerate(engines):
        rows = [r for r in found["results"] if r["engine"] == e and r["median"] is not None]
        at = [
            names.index(r["workload"]) + (i - len(engines) / 2) * 0.8 / len(engines) for r in rows
        ]
        bars = ax.barh(at, [r["median"] for r in rows], 0.8 / len(engines), align="edge", label=e)
        ax.bar_label(bars, fmt="{:.3g}", padding=2, fontsize=8)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel(f"seconds for {found['rows']:,} rows, median; {found['machine']}")
    ax.legend()
    try:
        fig.savefig(path)
    except (OSError, ValueError) as e:
        raise out.Refused(f"--plot {path}: {e}") from None
