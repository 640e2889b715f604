"""Online aggregation of page views: what are the most read pages, after a twentieth of the data and
at the end? Run: python examples/page_views.py [--plot views.png]

Exoshuffle's second application (SIGCOMM 2023, 5.3), in three ways. Online: a shuffle whose reduces
take their own last state and a round of maps, so that each round gives a
result that can be shown. Plain: its reduces begin when all maps have ended. And by skate.data,
which has such results of any aggregate (GroupedData.iter_partial). Partitions hold page numbers
that follow Zipf's law; the error of a partial result is the sum of the absolute differences to the
final shares (L1)."""

import argparse
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import skate
import skate.data
from skate.data.aggregate import Count

PAGES = 200_000
Added = tuple[np.ndarray, np.ndarray]  # places, views
Results = list[tuple[float, np.ndarray]]  # (seconds, views by page)
Curve = tuple[list[float], list[float]]  # seconds, errors


def draw(part: int, views: int) -> np.ndarray:
    """A partition of the log: a page number a view. Hours differ: which pages are popular drifts
    with `part`."""
    rng = np.random.default_rng(part)
    rank = rng.zipf(1.3, views) % PAGES
    return ((rank * 7919 + (rank % 17 == 3) * part) % PAGES).astype(np.uint32)


@skate.remote
def count(part: int, views: int, reducers: int) -> tuple[Added, ...]:
    """Map: views of each page of a partition, as (places, views) for each reducer. Reducer r has
    pages r, r + reducers, ... at places 0, 1, ..."""
    pages, n = np.unique(draw(part, views), return_counts=True)
    of = pages % reducers
    return tuple((pages[of == r] // reducers, n[of == r]) for r in range(reducers))


@skate.remote
def add(state: int | np.ndarray, *parts: Added) -> np.ndarray:
    """Reduce: the views so far and more of them. state: those of the last round, or how many pages
    there are."""
    views = np.zeros(state, np.int64) if isinstance(state, int) else state.copy()
    for places, n in parts:
        views[places] += n
    return views


def empty(reducers: int) -> list[int]:
    return [len(range(r, PAGES, reducers)) for r in range(reducers)]


def result(states: list[skate.ObjectRef[np.ndarray]]) -> np.ndarray:
    views = np.empty(PAGES, np.int64)
    for r, state in enumerate(skate.get(states)):
        views[r :: len(states)] = state
    return views


def maps(parts: Iterable[int], views: int, reducers: int) -> list[Any]:
    return [count.options(num_returns=reducers).remote(p, views, reducers) for p in parts]


def plain(partitions: int, views: int, reducers: int) -> Results:
    """All maps, then all reduces: [(seconds, views by page)], of one result."""
    begin = time.perf_counter()
    columns = zip(*maps(range(partitions), views, reducers))
    total = result([add.remote(state, *column) for state, column in zip(empty(reducers), columns)])
    return [(time.perf_counter() - begin, total)]


def online(partitions: int, views: int, reducers: int, rounds: int) -> Results:
    """Rounds of maps, each added to the states: a result after each of them. A round's maps run
    while those before it are added and shown."""
    begin, results = time.perf_counter(), Results()
    states: list[Any] = empty(reducers)
    cuts = np.linspace(0, partitions, rounds + 1).astype(int)
    blocks = maps(range(cuts[0], cuts[1]), views, reducers)
    for i in range(rounds):
        states = [add.remote(state, *column) for state, column in zip(states, zip(*blocks))]
        blocks = maps(range(cuts[i + 1], cuts[i + 2]), views, reducers) if i + 1 < rounds else []
        views_now = result(states)
        results.append((time.perf_counter() - begin, views_now))
    return results


def library(partitions: int, views: int) -> Results:
    """The same by skate.data: partial results of an aggregate, the partitions in a random order,
    each result an estimate of the whole."""
    ds = skate.data.range(partitions, override_num_blocks=partitions)
    log = ds.map_batches(
        lambda batch: {"page": np.concatenate([draw(int(part), views) for part in batch["id"]])}
    )
    begin, results = time.perf_counter(), Results()
    for partial in log.groupby("page").iter_partial(Count(), seed=0):
        views_now = np.zeros(PAGES)
        views_now[partial.table["page"].to_numpy()] = partial.table["count()"].to_numpy()
        results.append((time.perf_counter() - begin, views_now))
    return results


def say(name: str, results: Results, want: np.ndarray, plain_s: float) -> Curve:
    """Prints a line of it; returns seconds and errors of the results."""
    times, errors = [t for t, _ in results], [l1(r, want) for _, r in results]
    assert (results[-1][1] == want).all(), f"the last result of {name} differs from the plain one"
    share = times[0] / times[-1]
    print(
        f"{name}: first of {len(times)} results after {times[0]:.2f} s ({share:.1%} of it, error {errors[0]:.3f}), ",
        end="",
    )
    print(
        f"half-way {errors[len(errors) // 2 - 1]:.3f}, end {times[-1]:.2f} s ({times[-1] / plain_s:.2f} of plain)"
    )
    return times, errors


def l1(partial: np.ndarray, final: np.ndarray) -> float:
    return float(np.abs(partial / partial.sum() - final / final.sum()).sum())


def plot(path: str, curves: dict[str, Curve], plain_s: float) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name, (times, errors) in curves.items():
        axes.plot(times, errors, marker=".", label=f"{name}: error of the result so far")
    axes.axvline(plain_s, color="tab:red", label="plain: the only result")
    axes.set_xlabel("seconds")
    axes.set_ylabel("L1 error")
    axes.set_yscale("symlog", linthresh=1e-3)
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("--partitions", type=int, default=120)
    p.add_argument("--views", type=int, default=250_000, help="in a partition (4 bytes each)")
    p.add_argument("--reducers", type=int, default=4)
    p.add_argument("--rounds", type=int, default=40)
    p.add_argument("--plot", metavar="FILE", help="error over time, as PNG (matplotlib)")
    a = p.parse_args()
    if not 1 <= a.rounds <= a.partitions or min(a.views, a.reducers) < 1:
        p.error("wanted: 1 <= rounds <= partitions, and at least one view and one reducer")
    skate.init()
    skate.get(maps(range(4), 100, 2)[0])  # the workers are there
    ((plain_s, want),) = plain(a.partitions, a.views, a.reducers)
    results = online(a.partitions, a.views, a.reducers, a.rounds)
    print(
        f"{want.sum():,} views of {np.count_nonzero(want):,} pages; most read: {', '.join(map(str, np.argsort(-want)[:5]))}"
    )
    print(f"plain: {plain_s:.2f} s")
    curves = {
        "online": say("online", results, want, plain_s),
        "skate.data": say("skate.data", library(a.partitions, a.views), want, plain_s),
    }
    if a.plot:
        plot(a.plot, curves, plain_s)


if __name__ == "__main__":
    main()
