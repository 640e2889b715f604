"""A shuffle of one's own, as a program over tasks and objects (Exoshuffle, SIGCOMM 2023):
push-based. Maps cut their rows by destination; as soon as a few pieces for a destination are there
they are merged, while later maps run; not more than two rounds of merges may be behind; a reduce
takes what was merged for it. How rows move within Datasets is DataContext.shuffle_strategy."""

import pyarrow as pa
import skate as ray
import skate.data


@ray.remote
def cut(table: pa.Table, by: str, n: int):
    """The rows of each of n destinations: as many values."""
    to = table[by].to_numpy() % n
    pieces = [table.filter(to == k) for k in range(n)]
    return pieces[0] if n == 1 else tuple(pieces)


@ray.remote
def merge(*pieces: pa.Table) -> pa.Table:
    """Pieces for one destination, in the order of the maps."""
    return pa.concat_tables(pieces).combine_chunks()


def push_shuffle(tables: list, by: str, n: int, fan_in: int = 4, rounds: int = 2) -> list:
    """References to n tables, each with the rows of some values of column `by`, in the order of the
    inputs."""
    merged: list = [[] for _ in range(n)]
    pieces: list = [[] for _ in range(n)]
    behind: list = []
    for table in tables:
        made = cut.options(num_returns=n).remote(table, by, n)
        for k, piece in enumerate([made] if n == 1 else made):
            pieces[k].append(piece)
        if len(pieces[0]) == fan_in:
            behind.append([merge.remote(*pieces[k]) for k in range(n)])
            for k in range(n):
                merged[k].append(behind[-1][k])
                pieces[k] = []  # what the maps gave is let go when it is merged
        if len(behind) > rounds:  # maps wait while merges are behind
            ray.wait(behind.pop(0), num_returns=n)
    return [merge.remote(*merged[k], *pieces[k]) for k in range(n)]


def main() -> None:
    ray.init(num_cpus=2)
    ds = skate.data.range(100_000, override_num_blocks=20)
    parts = push_shuffle(ds.to_arrow_refs(), "id", 5)
    shuffled = skate.data.from_arrow_refs(parts)
    print(f"{shuffled.count():,} rows in {len(parts)} blocks, sum {shuffled.sum('id'):,}")


if __name__ == "__main__":
    main()
