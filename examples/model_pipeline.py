"""Three models one behind the other, as a compiled graph: small requests, low latency.
Run: python examples/model_pipeline.py [--plot latency.svg]

A request is a text. The first actor makes features of it, the second embeds them, the third
classifies the embedding and adds a confidence. The same actors are called in three ways: by plain
calls, by a compiled graph with one request at a time, and by a compiled graph with several
executions in progress, where the three models work on different requests at the same time.
"""

import argparse
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import skate
from skate.dag import CompiledDAG, InputNode

FEATURES, WIDTH, CLASSES = 512, 128, 8
Answer = tuple[int, float]  # class, confidence
WORDS = "sort merge spill page token lease batch actor graph store ring block".split()


@skate.remote
class Featurize:  # counts hashed words
    def run(self, text: str) -> np.ndarray:
        counts = np.zeros(FEATURES, np.float32)
        for word in text.split():
            counts[zlib.crc32(word.encode()) % FEATURES] += 1
        return counts / np.linalg.norm(counts)


@skate.remote
class Embed:
    def __init__(self) -> None:
        self.w = np.random.default_rng(1).normal(size=(FEATURES, WIDTH)).astype(np.float32)

    def run(self, features: np.ndarray) -> np.ndarray:
        return np.tanh(features @ self.w)


@skate.remote
class Classify:
    """The last layer: (class, confidence)."""

    def __init__(self) -> None:
        self.w = np.random.default_rng(2).normal(size=(WIDTH, CLASSES)).astype(np.float32)

    def run(self, embedding: np.ndarray) -> Answer:
        z = np.exp(embedding @ self.w)
        return int(z.argmax()), float(z.max() / z.sum())


def texts(n: int) -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, 20)) for _ in range(n)]


def one_by_one(
    call: Callable[[str], skate.ObjectRef[Answer]], requests: list[str]
) -> tuple[list[Answer], list[float]]:
    """Returns (the answers, the latency of each request in microseconds)."""
    answers, took = list[Answer](), list[float]()
    for text in requests:
        start = time.perf_counter()
        answers.append(skate.get(call(text)))
        took.append((time.perf_counter() - start) * 1e6)
    return answers, took


def in_flight(graph: CompiledDAG, requests: list[str], depth: int) -> tuple[list[Answer], float]:
    """Keeps `depth` requests in progress; returns (the answers, microseconds for each request)."""
    start, open_, answers = time.perf_counter(), list[Any](), list[Answer]()
    for text in requests:
        if len(open_) == depth:
            answers += skate.get([open_.pop(0)])
        open_.append(graph.execute(text))
    answers += skate.get(open_)
    return answers, (time.perf_counter() - start) / len(requests) * 1e6


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--requests", type=int, default=2000)
    p.add_argument("--plot", metavar="FILE")
    args = p.parse_args()
    skate.init(num_cpus=4)
    requests = texts(args.requests)
    first, second, third = Featurize.remote(), Embed.remote(), Classify.remote()

    def plain(text: str) -> Any:
        return third.run.remote(second.run.remote(first.run.remote(text)))

    one_by_one(plain, requests[:50])  # the processes start
    wanted, calls = one_by_one(plain, requests)
    with InputNode() as text:
        graph = third.run.bind(second.run.bind(first.run.bind(text))).experimental_compile()
    answers, compiled = one_by_one(graph.execute, requests)
    many, each = in_flight(graph, requests, 8)
    graph.teardown()
    assert wanted == answers == many
    for name, took in (("plain calls", calls), ("compiled graph", compiled)):
        typical, slow = np.quantile(took, [0.5, 0.99])
        print(f"{name:16} {typical:6.0f} us a request (99 %: {slow:.0f})")
    print(f"8 in progress    {each:6.0f} us a request, {1e6 / each:,.0f} requests a second")
    if args.plot:
        from matplotlib import pyplot as plt

        fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
        bins = np.geomspace(min(compiled), max(calls), 60)
        ax.hist(calls, bins, label="plain calls", alpha=0.7)
        ax.hist(compiled, bins, label="compiled graph", alpha=0.7)
        ax.set(xlabel="latency of a request in us", ylabel="requests", xscale="log")
        ax.legend()
        fig.savefig(args.plot)


if __name__ == "__main__":
    main()
