"""policies.py skate [FRAMES [SIGMAS [POLICIES [LOADS [SPEED [ROUNDS]]]]]]: the scheduling policies
of src/exec/by/ against each other on the engine, where exec_sim fig9 has them in
the simulator: Fig. 9 of the streaming batch paper (arXiv 2501.12407), sleeps divided by SPEED
(default 10), frames of 1.2 MB instead of 100 MB, so that copies take little part (smaller ones
would be taken together).

LOADS (160) loads of 5 s -> 5 frames each; a transform of 0.5 s a frame; an inference of 0.5 s a
frame on 4 GPUs; 8 CPU slots; the optimum of 160 loads is 150.5 s. Times are lognormal with each of
SIGMAS (default 0,1), the same for every policy: 0 is Fig. 9, 1 the heterogeneous work. FRAMES:
memory, in frames (default 20,60); blocks may be spilled. Per cell, the median of ROUNDS (1) runs,
the policies in turns: scaled seconds over the work, sum(CPU) / 8, and the largest number of frames
that existed, by the run's own account."""

import statistics
import sys
import time

import numpy as np
from common import emit, module

FRAMES, SIZE = 5, 1_200_000
N, SPEED, ROUNDS = (int(a) for a in (*sys.argv[5:], *("160", "10", "1")[len(sys.argv[5:]) :]))


def seconds(key, mean, sigma):
    return (
        float(np.random.default_rng(key).lognormal(np.log(mean) - sigma * sigma / 2, sigma))
        if sigma
        else mean
    )


def run(data, frames, sigma, policy):
    def load(b):
        for i in b["id"]:
            time.sleep(seconds(int(i), 5, sigma) / SPEED)
            for k in range(FRAMES):
                yield {"k": np.array([int(i) * FRAMES + k]), "f": np.full((1, SIZE), 1, np.uint8)}

    def transform(b):
        time.sleep(seconds(1000 + int(b["k"][0]), 0.5, sigma) / SPEED)
        return {"k": b["k"], "f": b["f"] + np.uint8(1)}

    class Infer:
        def __call__(self, b):
            time.sleep(seconds(2000 + int(b["k"][0]), 0.5, sigma) / SPEED)
            return {"s": b["f"][:, :1].sum(axis=1, dtype=np.int64)}

    ctx = data.DataContext.get_current()
    ctx.scheduling_policy = policy
    ctx.execution_options.resource_limits = ctx.execution_options.resource_limits.copy(
        object_store_memory=frames * (SIZE + 500)
    )
    ds = data.range(N, override_num_blocks=N).map_batches(load, batch_size=1, num_cpus=1)
    ds = ds.map_batches(transform, batch_size=1, num_cpus=0.99).map_batches(
        Infer, batch_size=1, num_gpus=1, num_cpus=0, concurrency=4
    )
    t = time.perf_counter()
    got = sum(int(b["s"].sum()) for b in ds.iter_batches(batch_size=64))
    t = time.perf_counter() - t
    if got != 2 * N * FRAMES:
        raise SystemExit("WRONG RESULT")
    work = sum(seconds(i, 5, sigma) for i in range(N)) + sum(
        seconds(1000 + k, 0.5, sigma) for k in range(N * FRAMES)
    )
    return t * SPEED / (work / 8), ds.stats_dict()["memory_peak"] / SIZE


def main():
    name = sys.argv[1]
    skate, data = module(name), module(name, ".data")
    args = sys.argv[2:5] + ["20,60", "0,1", ",".join(skate._skate.POLICIES)][len(sys.argv[2:5]) :]
    skate.init(num_cpus=8, num_gpus=4, object_store_memory=256 << 20)
    run(data, 60, 0, "downstream")  # workers start
    r = {}
    for sigma in map(float, args[1].split(",")):
        for frames in map(int, args[0].split(",")):
            policies = args[2].split(",")
            rounds = [
                [run(data, frames, sigma, policy) for policy in policies] for _ in range(ROUNDS)
            ]
            for policy, runs in zip(policies, zip(*rounds, strict=True), strict=True):
                over, peak = (statistics.median(x) for x in zip(*runs, strict=True))
                r[f"{policy}, {frames} frames, sigma {sigma:g}"] = f"{over:.2f} ({peak:.0f})"
                print(policy, frames, sigma, f"{over:.3f} {peak:.0f}", flush=True)
    emit("policies", name, **r)


main()
