"""ray_perf.py [PATTERN]: Ray's own microbenchmark (ray/_private/ray_perf.py of the installed Ray)
over a Ray cluster of two raylets of one CPU on this machine, by skate and by Ray itself. Prints a
table of the sections whose name has PATTERN in it, with calls per second.

It needs a Python that has Ray: `./dev test ray` makes one, then
PYTHONPATH=python build/ray/bin/python bench/py/ray_perf.py. Each section is timed as Ray does it (4
times 2 s), but without the 10 s that Ray sleeps before. Left out: Ray Client and placement groups,
which skate does not have over nodes."""

import contextlib
import functools
import importlib.util
import json
import os
import subprocess
import sys
import types

SIDES = ("skate", "ray")
STORE = 3 << 30  # the benchmark puts 800 MB at once
HELPERS = "ray._private.ray_microbenchmark_helpers"


class Over(Exception):
    """All sections were run but those that are left out."""


def once(init):
    """init() of the benchmark: it takes the cluster that is there, once."""
    calls = iter((init,))

    def given(**how):
        try:
            next(calls)()
        except StopIteration:
            raise Over from None

    return given


def run(side, address):
    """Runs the benchmark in this process. The engine over Ray needs Ray itself, so only the script
    gets skate for it."""
    import ray
    import skate

    helpers = importlib.import_module(HELPERS)
    helpers.timeit.__defaults__ = (1, 0)  # a warm-up, no sleep
    timeit = helpers.timeit

    def told(name, *args):
        for result in filter(None, timeit(name, *args)):
            print(json.dumps(result), flush=True)
            print(f"# {side}: {result}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        return []

    helpers.timeit = told
    client = types.ModuleType("ray._private.ray_client_microbenchmark")
    client.main = None
    sys.modules[client.__name__] = client
    path = importlib.util.find_spec("ray._private.ray_perf").origin
    with open(path) as f:
        code = compile(f.read(), path, "exec")
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    api = skate if side == "skate" else ray
    begin = functools.partial(skate.init, _engine="ray") if api is skate else lambda: None
    api.init = once(begin)
    # Its functions are pickled by value, since no module has this name.
    perf = {"__name__": "perf"}
    sys.modules["ray"] = api
    exec(code, perf)
    sys.modules["ray"] = ray
    with contextlib.suppress(Over):
        perf["main"]()


def measured(side, address):
    """{name of a section: (mean, standard deviation)}."""
    done = subprocess.run(
        [sys.executable, __file__, "--run", side, address], stdout=subprocess.PIPE, text=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    if done.returncode:
        print(f"{side}: it ended with {done.returncode}", file=sys.stderr)
    return {name: (mean, sd) for name, mean, sd in map(json.loads, lines)}


def number(x):
    return f"{x:,.0f}" if x >= 100 else f"{x:.2g}"


def main():
    from ray.cluster_utils import Cluster

    os.environ["TESTS_TO_RUN"] = sys.argv[1] if len(sys.argv) > 1 else ""
    out = {}
    for side in SIDES:
        cluster = Cluster()
        for _ in range(2):
            cluster.add_node(num_cpus=1, object_store_memory=STORE, include_dashboard=False)
        cluster.wait_for_nodes()
        try:
            out[side] = measured(side, cluster.address)
        finally:
            cluster.shutdown()
    print("| per second | skate | Ray |\n|---|---|---|")
    for name in {**out["skate"], **out["ray"]}:
        cells = [out[side].get(name) for side in SIDES]
        print(
            f"| {name} | "
            + " | ".join(
                f"{number(x[0])} (± {100 * x[1] / x[0]:.0f} %)" if x else "-" for x in cells
            )
            + " |"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(*sys.argv[2:])
    else:
        main()
