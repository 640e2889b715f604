"""graphs.py skate|ray [ROUNDS]: compiled graphs: one hop there and back of 8 bytes and 1 MB, chains
of 1, 2 and 3 actors, a pipeline of four stages of 100 us with as many executions under way as it
takes. Beside them the limits of the same run, by bench/c/channel_bench.c where it
is built: a word that two processes hand each other, spinning or by futex. Microseconds an
execution, the median of ROUNDS (5) rounds."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from common import emit, module

ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5


def median_us(fn, n):
    took = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        fn(n)
        took.append((time.perf_counter() - start) / n * 1e6)
    return statistics.median(took)


def chain(ray, actors, value, n):
    from ray_dag import InputNode

    with InputNode() as x:
        node = x
        for a in actors:
            node = a.echo.bind(node)
    compiled = node.experimental_compile()

    def loop(n):
        for _ in range(n):
            ray.get(compiled.execute(value))

    loop(n // 10 + 1)
    out = median_us(loop, n)
    compiled.teardown()
    return out


def pipeline(ray, actors, n):
    from ray_dag import InputNode

    with InputNode() as x:
        node = x
        for a in actors:
            node = a.work.bind(node)
    compiled = node.experimental_compile(_max_inflight_executions=8)

    def loop(n):
        refs = []
        for i in range(n):
            refs.append(compiled.execute(i))
            if len(refs) == 8:
                ray.get(refs.pop(0))
        for r in refs:
            ray.get(r)

    loop(n // 10)
    out = median_us(loop, n)
    compiled.teardown()
    return out


def limits():
    """What the machine can do now: the limits and the copying hop of bench/c/channel_bench.c."""
    found = sorted(Path(__file__).resolve().parents[2].glob("build/*/bin/channel_bench"))
    if not found:
        return []
    out = subprocess.run([found[0], "1000"], capture_output=True, text=True, check=True).stdout
    rows = [line for line in out.splitlines() if line.startswith("limit") or line.startswith("hop")]
    return [
        (line[: line.index("  ")], line[line.index("  ") :].split()[0])
        for line in rows
        if "adaptive" in line or "limit" in line
    ]


def main():
    ray = module(sys.argv[1])
    sys.modules["ray_dag"] = __import__(f"{ray.__name__}.dag", fromlist=["x"])
    ray.init(num_cpus=4)

    @ray.remote
    class Actor:
        def echo(self, x):
            return x

        def work(self, x):
            until = time.perf_counter() + 100e-6
            while time.perf_counter() < until:
                pass
            return x

    actors = [Actor.remote() for _ in range(4)]
    for name, us in limits():
        emit("graph", engine=ray.__name__, what=name, us=float(us))
    emit(
        "graph",
        engine=ray.__name__,
        what="1 hop 8 B",
        us=round(chain(ray, actors[:1], 12345678, 3000), 1),
    )
    emit(
        "graph",
        engine=ray.__name__,
        what="1 hop 1 MB",
        us=round(chain(ray, actors[:1], np.ones(1 << 20, np.uint8), 500), 1),
    )
    for k in (2, 3):
        emit(
            "graph",
            engine=ray.__name__,
            what=f"chain of {k} 8 B",
            us=round(chain(ray, actors[:k], 12345678, 2000), 1),
        )
    emit(
        "graph",
        engine=ray.__name__,
        what="pipeline of 4 x 100 us",
        us=round(pipeline(ray, actors, 1000), 1),
    )


if __name__ == "__main__":
    main()
