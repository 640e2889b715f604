"""`skate sort`: sorts files, also more than fit into memory.

Tables (Parquet, CSV, JSON lines) are sorted by a Dataset, so every wheel has what it needs. Records
of the public sort benchmark are sorted by the C program `cloudsort`, which is not in the wheel
(it needs the system's libcurl), but in Debian's package skate-tools and in what `./dev install`
puts under its prefix."""

import argparse
import os
import time
from typing import Any

import skate.data
from skate._deps import pa, shutil
from skate.cli import out
from skate.cli import run as program
from skate.exceptions import RayError

EXAMPLES = """
skate sort events/ --by time -o sorted
skate sort a.csv b.csv --by country,amount:desc -o sorted
skate sort --records gensort-output -o sorted             # cloudsort: records of 100 bytes
"""

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "json",
    ".json": "json",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Sorts Parquet files, CSV files, or files with a JSON object a line, by columns, also more "
        "than fit into memory. The sorted rows are in the files of the output folder in the order of "
        "their names; rows with equal keys keep their order. With --records it runs the program "
        "`cloudsort` on files of 100-byte records."
    )
    parser.add_argument(
        "inputs", metavar="INPUT", nargs="+", help="a file, or a folder of files of one format"
    )
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", required=True, help="a new or an empty folder"
    )
    parser.add_argument(
        "--by",
        metavar="COLUMNS",
        help="the columns, separated by commas, the most important first; COLUMN:desc: from high to low",
    )
    parser.add_argument(
        "--format",
        choices=sorted(set(FORMATS.values())),
        help="the format of input and output (default: by the names of the input files)",
    )
    parser.add_argument(
        "--records",
        action="store_true",
        help="sort records of 100 bytes with keys of 10 bytes, by the program `cloudsort`",
    )
    program.add_cpus_and_memory(parser)


def run(args: argparse.Namespace) -> None:
    if args.records:
        return _records(args)
    if not args.by:
        raise out.Refused("--by is wanted: the columns to sort by (or --records)", 2)
    os.environ.update(program.settings(args))
    kind = args.format or _format(args.inputs)
    if os.path.exists(args.output) and not (
        os.path.isdir(args.output) and not os.listdir(args.output)
    ):
        raise out.Refused(f"{args.output} exists already, and is no empty folder: choose another")
    began = time.monotonic()
    try:
        _sort(kind, args.inputs, args.output, args.by.split(","))
    except (RayError, pa.ArrowInvalid, LookupError, TypeError, ValueError, OSError) as e:
        raise out.Refused(str(e).partition("\n")[0].strip('"')) from None  # KeyError quotes it
    print(f"{args.output}: sorted in {time.monotonic() - began:.1f} s")


def _sort(kind: str, inputs: list[str], output: str, keys: list[str]) -> None:
    how: dict[str, Any] = {"lines": True} if kind == "json" else {}
    ds = getattr(skate.data, f"read_{kind}")(inputs, **how)
    ds = ds.sort([k.removesuffix(":desc") for k in keys], [k.endswith(":desc") for k in keys])
    getattr(ds, f"write_{kind}")(output)


def _format(inputs: list[str]) -> str:
    """The format that the names of the files say. Refused: none, or several."""
    names = []
    for path in inputs:
        if os.path.isdir(path):
            names += [n for n in sorted(os.listdir(path)) if n[0] not in "._"]
        elif os.path.exists(path) or "://" in path:
            names.append(path)
        else:
            raise out.Refused(f"there is no file or folder {path!r}")
    found = {FORMATS.get(os.path.splitext(n.removesuffix(".gz"))[1].lower(), "") for n in names}
    if len(found) == 1 and found != {""}:
        return found.pop()
    what = "different formats" if len(found) > 1 else "a format that their names do not say"
    raise out.Refused(
        f"the input files have {what}: say --format {{{','.join(sorted(set(FORMATS.values())))}}}",
        2,
    )


def _records(args: argparse.Namespace) -> None:
    """Becomes the program `cloudsort`."""
    if args.by or args.format:
        raise out.Refused("records have one key, their first 10 bytes: no --by, no --format", 2)
    path = shutil.which("cloudsort")
    if path is None:
        raise out.Refused(
            "there is no program `cloudsort` in PATH: install Debian's package skate-tools, or "
            "`./dev install --prefix DIR` of the sources and put DIR/bin into PATH"
        )
    how = ["-t", f"{max(1, int(args.cpus))}"] if args.cpus else []
    how += ["-s", str(args.memory)] if args.memory else []
    os.execv(path, ["cloudsort", *how, args.output, *args.inputs])
