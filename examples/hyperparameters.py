"""Hyper-parameter search: many small trainings at once, of which the bad ones end early.
Run: python examples/hyperparameters.py [--plot search.svg]

Successive halving without rounds (ASHA): each trial is an actor that keeps its model between steps.
When a trial reaches a rung (1, 2, 4, 8, 16 epochs) and is not among the best half of those that
were there before it, a trial with other parameters takes its place. No trial waits for the others.
"""

import argparse
from typing import Any

import numpy as np
import skate

RUNGS = [1, 2, 4, 8, 16]
Config = dict[str, Any]
Rows = tuple[np.ndarray, np.ndarray]  # points, classes


def spirals(n: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    at, side = rng.uniform(0.3, 3, n), rng.integers(0, 2, n)
    angle = 2 * at + np.pi * side
    x = at[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    return x + rng.normal(0, 0.15, (n, 2)), side.astype(float)


@skate.remote(num_cpus=1)
class Trial:  # a small neural network over two interleaved spirals
    def __init__(self, config: Config, train: Rows, test: Rows) -> None:
        self.config, self.train, self.test = config, train, test
        self.rng = np.random.default_rng(config["seed"])
        widths = [2, config["width"], config["width"], 1]
        self.w = [self.rng.normal(0, (2 / a) ** 0.5, (a, b)) for a, b in zip(widths, widths[1:])]
        self.b = [np.zeros(b) for b in widths[1:]]
        self.v = [np.zeros_like(p) for p in [*self.w, *self.b]]

    def forward(self, x: np.ndarray) -> list[np.ndarray]:
        layers = [x]
        for i, (w, b) in enumerate(zip(self.w, self.b)):
            z = layers[-1] @ w + b
            layers.append(np.maximum(z, 0) if i < 2 else 1 / (1 + np.exp(-np.clip(z, -30, 30))))
        return layers

    def step(self, batch: np.ndarray) -> None:
        layers = self.forward(self.train[0][batch])
        grads_w, grads_b = list[np.ndarray](), list[np.ndarray]()
        delta = (layers[-1] - self.train[1][batch, None]) / len(batch)
        for i in (2, 1, 0):
            grads_w.insert(0, layers[i].T @ delta)
            grads_b.insert(0, delta.sum(0))
            delta = (delta @ self.w[i].T) * (layers[i] > 0)
        for p, g, v in zip([*self.w, *self.b], [*grads_w, *grads_b], self.v):
            v *= self.config["momentum"]
            v -= self.config["rate"] * g
            p += v

    def epochs(self, n: int) -> float:
        """Trains on; returns the accuracy on the test data."""
        for _ in range(n):
            order = self.rng.permutation(len(self.train[0]))
            for at in range(0, len(order), self.config["batch"]):
                self.step(order[at : at + self.config["batch"]])
        return float(((self.forward(self.test[0])[-1][:, 0] > 0.5) == self.test[1]).mean())


def draw(rng: np.random.Generator, seed: int) -> Config:
    width, batch = (int(rng.choice(some)) for some in ([8, 16, 32, 64], [16, 32, 64]))
    rate, momentum = 10 ** rng.uniform(-3, 0), float(rng.choice([0, 0.5, 0.9]))
    return {"rate": rate, "width": width, "batch": batch, "momentum": momentum, "seed": seed}


def search(trials: int) -> list[tuple[Config, list[float]]]:
    """Runs all trials, one a CPU; returns their (parameters, accuracies)."""
    rng, done = np.random.default_rng(5), list[tuple[Config, list[float]]]()
    train, test = skate.put(spirals(1500, 1)), skate.put(spirals(500, 2))
    rungs: list[list[float]] = [[] for _ in RUNGS]
    running: dict[skate.ObjectRef[float], tuple[Any, Config, list[float]]] = {}

    def start() -> None:
        config = draw(rng, len(done) + len(running))
        actor = Trial.remote(config, train, test)
        running[actor.epochs.remote(RUNGS[0])] = (actor, config, [])

    for _ in range(min(int(skate.cluster_resources()["CPU"]), trials)):
        start()
    while running:
        [ref], _ = skate.wait(list(running))
        actor, config, seen = running.pop(ref)
        seen.append(skate.get(ref))
        rung = rungs[len(seen) - 1]
        good = not rung or seen[-1] >= np.median(rung)
        rung.append(seen[-1])
        if good and len(seen) < len(RUNGS):
            more = actor.epochs.remote(RUNGS[len(seen)] - RUNGS[len(seen) - 1])
            running[more] = (actor, config, seen)
            continue
        done.append((config, seen))
        del actor  # the last handle: its process ends, and its CPU is free
        if len(done) + len(running) < trials:
            start()
    return done


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--trials", type=int, default=24)
    p.add_argument("--plot", metavar="FILE")
    args = p.parse_args()
    done = search(args.trials)
    best, seen = max(done, key=lambda d: d[1][-1])
    epochs = sum(RUNGS[len(s) - 1] for _, s in done)
    print(f"{len(done)} trials, {epochs} epochs instead of {len(done) * RUNGS[-1]}")
    print(f"best {seen[-1]:.1%}: {best}")
    if args.plot:
        from matplotlib import pyplot as plt

        fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
        for config, seen in done:
            ax.plot(RUNGS[: len(seen)], seen, "o-", alpha=0.9 if config is best else 0.3)
        ax.set(xlabel="epochs", ylabel="accuracy")
        fig.savefig(args.plot)


if __name__ == "__main__":
    main()
