"""unequal_nodes.py [--rounds N]: a pipeline whose stages belong on different nodes. Two nodes of one
CPU, one of them with a GPU as well (a number: nothing computes on it). A CPU stage takes 10 ms a
batch, a GPU stage 5 ms, so both CPUs together feed the GPU: 200 batches/s is the optimum. A pipeline
that is bound to the nodes of its stages reaches 100. Prints the rate, as a part of the optimum, for
stages of tasks and for a pool of one actor on the GPU."""

import argparse
import statistics
import time

import skate
import skate.data

BATCHES, CPU_S, GPU_S = 800, 0.010, 0.005


def prepare(batch):
    time.sleep(CPU_S)
    return batch


def infer(batch):
    time.sleep(GPU_S)
    return batch


class Infer:
    def __call__(self, batch):
        return infer(batch)


def rate(stage, **how):
    ds = skate.data.range(BATCHES, override_num_blocks=BATCHES)
    ds = ds.map_batches(prepare, num_cpus=1).map_batches(
        stage, num_cpus=0, num_gpus=1, batch_size=1, **how
    )
    start = time.perf_counter()
    assert ds.count() == BATCHES
    return BATCHES / (time.perf_counter() - start)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    skate.data.DataContext.get_current().enable_progress_bars = False
    best = 1 / max(CPU_S / 2, GPU_S)
    for nodes in (0, 2):
        with skate.init(num_cpus=2, num_gpus=1, _system_config={"nodes": nodes}):
            for name, stage, how in (("tasks", infer, {}), ("a pool", Infer, {"concurrency": 1})):
                rate(stage, **how)
                got = statistics.median(rate(stage, **how) for _ in range(a.rounds))
                print(
                    f"{nodes or 'no'} nodes, {name:7} {got:6.0f} batches/s, {got / best:.2f} of the optimum"
                )


if __name__ == "__main__":
    main()
