"""`skate memory`: the memory of each process of an engine. For a list of the objects that the
driver's program holds in the store, call skate._private.internal_api.memory_summary() in it."""

import argparse

from skate._private import processes
from skate.cli import out
from skate.terminal import words

EXAMPLES = """
skate memory
skate memory 4711 --json
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows the memory of each process of an engine: its private memory and its share of what "
        "processes share, and how much of the object store is in memory."
    )
    out.add_pid(parser)
    out.add_json(parser)


def run(args: argparse.Namespace) -> None:
    found = [processes.memory(*engine) for engine in out.engines(args.pid)]
    if args.json:
        return out.as_json({"engines": found})
    for engine in found:
        for p in engine["processes"]:
            what = f"worker, {'task ' + p['task'] if p['task'] else 'idle'}"
            if p["pid"] == engine["pid"]:
                what = f"driver ({engine['program']})"
            print(f"{p['pid']:>9} {words.nbytes(p['bytes']):>14}  {what}")
        store = engine["store"]
        in_memory = (
            f"{words.nbytes(store['resident'])} of {words.nbytes(store['capacity'])}"
            if store
            else "?"
        )
        print(
            f"{'sum':>9} {words.nbytes(engine['bytes']):>14}  of which the object store: {in_memory}\n"
        )
