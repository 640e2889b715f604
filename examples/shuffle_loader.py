"""A training loader that shuffles: how well are rows mixed, and what does it cost the trainer? Run:
python examples/shuffle_loader.py [--plot loader.png]

Exoshuffle's third application (SIGCOMM 2023, 5.4). Rows lie in files sorted by their label, as logs
and exports often do. Each epoch goes over the rows

    none     in the order of the files
    partial  in rounds of a few files, mixed within the round
    full     mixed over all files: each file's rows are dealt out to all reduces; the trainer takes
             a reduce's rows as soon as they are there, while the others and the next epoch are
             being mixed

The model is a logistic regression that really learns, so mixing shows in its accuracy; the
accelerator is modelled by a sleep for each batch."""

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import skate

FEATURES = 28  # as in HIGGS
Rows = tuple[np.ndarray, np.ndarray]  # features, labels
Seed = tuple[int, ...]
Block = skate.ObjectRef[Rows]
Curve = tuple[list[float], float, float, float]  # accuracies, seconds, to the first batch, waited


def draw(rows: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    y = x @ np.linspace(-1, 1, FEATURES) + rng.normal(size=rows) * 2 > 0.3
    return x, y.astype(np.float32)


@skate.remote
def read(x: np.ndarray, y: np.ndarray, first: int, last: int) -> Rows:
    """A file: rows [first, last) of those sorted by label."""
    return x[first:last].copy(), y[first:last].copy()


@skate.remote
def deal(file: Rows, reduces: int, seed: Seed) -> Any:
    """Map: each row of a file goes to a reduce by chance."""
    x, y = file
    to = np.random.default_rng(seed).integers(0, reduces, len(y))
    parts = tuple((x[to == r], y[to == r]) for r in range(reduces))
    return parts if reduces > 1 else parts[0]


@skate.remote
def mix(seed: Seed, *parts: Rows) -> Rows:
    """Reduce: its rows, in an order by chance."""
    x, y = (np.concatenate(column) for column in zip(*parts))
    order = np.random.default_rng(seed).permutation(len(y))
    return x[order], y[order]


def mixed(files: Sequence[Block], reduces: int, seed: Seed) -> list[Block]:
    dealt = [
        deal.options(num_returns=reduces).remote(f, reduces, (*seed, i))
        for i, f in enumerate(files)
    ]
    columns = zip(*dealt) if reduces > 1 else [dealt]
    return [mix.remote((*seed, len(files) + r), *column) for r, column in enumerate(columns)]


def epoch(files: list[Block], mode: str, a: argparse.Namespace, number: int) -> list[Block]:
    """References to the blocks of rows of an epoch, in the order of training."""
    if mode == "none":
        return list(files)
    if mode == "partial":
        rounds = [files[i : i + a.round] for i in range(0, len(files), a.round)]
        return [
            block for i, some in enumerate(rounds) for block in mixed(some, len(some), (number, i))
        ]
    return mixed(files, len(files), (number,))


def batches(blocks: list[Block], size: int) -> Iterator[Rows]:
    for ref in blocks:
        x, y = skate.get(ref)
        for i in range(0, len(y), size):
            yield x[i : i + size], y[i : i + size]


def train(files: list[Block], mode: str, a: argparse.Namespace, test: Rows) -> Curve:
    """Accuracy after each epoch, seconds in all and until the first batch, seconds in which the
    trainer waited for rows."""
    w, b, accuracy, waited = np.zeros(FEATURES, np.float32), np.float32(0), list[float](), 0.0
    begin, first = time.perf_counter(), 0.0
    ahead = epoch(files, mode, a, 0)
    for e in range(a.epochs):
        blocks, ahead = ahead, epoch(files, mode, a, e + 1) if e + 1 < a.epochs else []
        stream, since = batches(blocks, a.batch), time.perf_counter()
        for x, y in stream:
            waited += time.perf_counter() - since
            first = first or time.perf_counter() - begin
            error = 1 / (1 + np.exp(-(x @ w + b))) - y
            w -= a.rate * (x.T @ error) / len(y)
            b -= np.float32(a.rate * error.mean())
            time.sleep(a.step)
            since = time.perf_counter()
        accuracy.append(float(((test[0] @ w + b > 0) == (test[1] > 0.5)).mean()))
    return accuracy, time.perf_counter() - begin, first, waited


def plot(path: str, curves: dict[str, Curve]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for mode, (accuracy, seconds, _, _) in curves.items():
        axes.plot(
            np.linspace(0, seconds, len(accuracy) + 1)[1:],
            accuracy,
            marker=".",
            label=f"{mode} ({seconds:.1f} s)",
        )
    axes.set_xlabel("seconds")
    axes.set_ylabel("accuracy on rows that were not trained on")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("--rows", type=int, default=200_000)
    p.add_argument("--files", type=int, default=20)
    p.add_argument("--round", type=int, default=4, help="files that `partial` mixes at once")
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--batch", type=int, default=1000)
    p.add_argument(
        "--step", type=float, default=0.002, help="seconds of the modelled accelerator for a batch"
    )
    p.add_argument("--rate", type=float, default=0.5, help="of learning")
    p.add_argument("--plot", metavar="FILE", help="accuracy over time, as PNG (matplotlib)")
    a = p.parse_args()
    if min(a.rows, a.files, a.round, a.epochs, a.batch) < 1 or a.files > a.rows:
        p.error("wanted: at least one row a file, one file, one epoch and one row a batch")
    skate.init()
    x, y = draw(a.rows, 0)
    order = np.argsort(y, kind="stable")
    refs, cuts = (
        [skate.put(x[order]), skate.put(y[order])],
        [a.rows * i // a.files for i in range(a.files + 1)],
    )
    files = [read.remote(*refs, i, j) for i, j in zip(cuts, cuts[1:])]
    skate.wait(files, num_returns=len(files))
    test, curves = draw(20_000, 1), dict[str, Curve]()
    for mode in ("none", "partial", "full"):
        curves[mode] = accuracy, seconds, first, waited = train(files, mode, a, test)
        print(
            f"{mode:8} {seconds:6.2f} s, first batch after {first:.3f} s, waited for rows {waited:.2f} s; ",
            end="",
        )
        print(f"accuracy {accuracy[0]:.3f} after one epoch, {accuracy[-1]:.3f} after {a.epochs}")
    if a.plot:
        plot(a.plot, curves)


if __name__ == "__main__":
    main()
