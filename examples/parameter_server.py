"""A parameter server: workers compute gradients, an actor keeps the weights.
Run: python examples/parameter_server.py [--plot loss.svg]

Logistic regression over synthetic data, trained in two ways with the same number of gradients. In
the synchronous way all workers compute on the same weights, and the server adds the mean of their
gradients. In the asynchronous way a worker's gradient is applied as soon as it comes, while the
others still compute on older weights; no worker waits for a slower one.
"""

import argparse
import time
from typing import Any

import numpy as np
import skate
from skate.actor import ActorHandle

FEATURES, ROWS, RATE = 200, 4000, 0.5


def loss(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    z = x @ weights
    return float(np.mean(np.logaddexp(0, z) - y * z))


@skate.remote
class Server:
    """Keeps the weights. push() adds a gradient and answers with the new weights."""

    def __init__(self) -> None:
        self.weights = np.zeros(FEATURES)

    def push(self, *gradients: np.ndarray) -> np.ndarray:
        self.weights = self.weights - RATE * np.mean(gradients, axis=0)
        return self.weights

    def pull(self) -> np.ndarray:
        return self.weights


@skate.remote
class Worker:
    """Has a part of the data. Every third worker is slow, as machines sometimes are."""

    def __init__(self, number: int, truth: np.ndarray) -> None:
        rng = np.random.default_rng(number)
        self.x = rng.normal(size=(ROWS, FEATURES))
        self.y = (rng.random(ROWS) < 1 / (1 + np.exp(-self.x @ truth))).astype(float)
        self.slow = 0.01 if number % 3 == 2 else 0.002

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        time.sleep(self.slow)
        p = 1 / (1 + np.exp(-self.x @ weights))
        return self.x.T @ (p - self.y) / ROWS

    def loss(self, weights: np.ndarray) -> float:
        return loss(weights, self.x, self.y)


def mean_loss(workers: list[ActorHandle[Any]], weights: skate.ObjectRef[np.ndarray]) -> float:
    losses: list[float] = skate.get([w.loss.remote(weights) for w in workers])
    return float(np.mean(losses))


def synchronous(workers: list[ActorHandle[Any]], gradients: int) -> list[tuple[float, float]]:
    server, start, seen = Server.remote(), time.monotonic(), list[tuple[float, float]]()
    weights = server.pull.remote()
    for i in range(gradients // len(workers)):
        # references go from actor to actor: the driver never has the arrays
        weights = server.push.remote(*[w.gradient.remote(weights) for w in workers])
        if i % 5 == 0:
            skate.wait([weights])
            seen.append((time.monotonic() - start, mean_loss(workers, weights)))
    seen.append((time.monotonic() - start, mean_loss(workers, weights)))
    return seen


def asynchronous(workers: list[ActorHandle[Any]], gradients: int) -> list[tuple[float, float]]:
    server, start, seen = Server.remote(), time.monotonic(), list[tuple[float, float]]()
    weights = server.pull.remote()
    busy = {w.gradient.remote(weights): w for w in workers}
    for i in range(gradients):
        [ready], _ = skate.wait(list(busy), num_returns=1)
        worker = busy.pop(ready)
        weights = server.push.remote(ready)
        busy[worker.gradient.remote(weights)] = worker
        if i % 25 == 0:
            seen.append((time.monotonic() - start, mean_loss(workers, weights)))
    seen.append((time.monotonic() - start, mean_loss(workers, weights)))
    return seen


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--gradients", type=int, default=200)
    p.add_argument("--plot", metavar="FILE")
    args = p.parse_args()
    # The workers share the CPUs: an actor that waits needs none.
    skate.init(num_cpus=args.workers + 1)
    truth = np.random.default_rng(9).normal(size=FEATURES) / np.sqrt(FEATURES)
    workers = [Worker.remote(i, truth) for i in range(args.workers)]
    ways = {"synchronous": synchronous, "asynchronous": asynchronous}
    runs = {name: way(workers, args.gradients) for name, way in ways.items()}
    for name, seen in runs.items():
        print(f"{name:12} loss {seen[0][1]:.3f} -> {seen[-1][1]:.3f} in {seen[-1][0]:.1f} s")
    if args.plot:
        from matplotlib import pyplot as plt

        fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
        for name, seen in runs.items():
            ax.plot(*zip(*seen), label=name)
        ax.set(xlabel="seconds", ylabel="loss")
        ax.legend()
        fig.savefig(args.plot)


if __name__ == "__main__":
    main()
