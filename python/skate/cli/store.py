"""`skate store`: what lies in the object store of an engine."""

import argparse
from typing import Any

from skate._private import processes
from skate.cli import out
from skate.terminal import words

EXAMPLES = """
skate store
skate store 4711 --json
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows what lies in the object store of an engine, how much of it is in memory, and what was "
        "written to disk and read back. A list of the objects themselves is known in the program "
        "only: skate._private.internal_api.memory_summary() prints it, the largest first."
    )
    out.add_pid(parser)
    out.add_json(parser)


def run(args: argparse.Namespace) -> None:
    found = [_of(driver) for driver, _, _ in out.engines(args.pid)]
    if args.json:
        return out.as_json({"engines": found})
    console = out.console()
    for engine in found:
        s = engine["store"]
        console.print(out.plain(f"driver {engine['pid']} ({engine['program']})"))
        resident = s["resident"]
        rows = [
            ("used", f"{words.nbytes(s['used'])} of {words.nbytes(s['capacity'])}"),
            ("in memory", words.nbytes(resident) if resident is not None else "?"),
            ("objects", f"{s['objects']:,}"),
            ("on disk now", words.nbytes(s["spilled_now"])),
            ("written to disk in all", words.nbytes(s["spilled_total"])),
            ("read back in all", words.nbytes(s["restored_total"])),
        ]
        console.print(out.table(["<", ""], rows, header=False), "")


def _of(driver: int) -> dict[str, Any]:
    now, resident = out.snapshot(driver), processes.store(driver)
    store = {**now["store"], "resident": resident[0] if resident else None}
    return {"pid": now["pid"], "program": now["program"], "store": store}
