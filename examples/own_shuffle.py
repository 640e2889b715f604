"""A shuffle of one's own (Exoshuffle, SIGCOMM 2023: a shuffle is a short program over tasks): packs
of maps wait until a share of memory is full of them, and then all are merged, range by range, while
later maps run; so a reduce reads one part a round, however many maps there are. It is told what has
come and says which tasks to make; rows and their order do not depend on it, and it runs on every
engine. The words: skate.data.ExchangeStrategy; what others do: docs/design/exchange.md."""

import skate as ray
import skate.data
from skate.data.exchange_strategy import Pack, Shuffle, Sizes


class Rounds(skate.data.ExchangeStrategy):
    """Merges in rounds.

    Args:
        share: Of memory, that packs may fill before they are merged.
        most: Packs in one merge.
    """

    def __init__(self, share: float = 0.25, most: int = 16):
        self.share, self.most = share, most

    def values(self, sizes: Sizes) -> int:
        """Maps are cut into eight ranges; of sorted runs whole ones are merged."""
        return 1 if sizes.runs else 8

    def came(self, shuffle: Shuffle, pack: Pack) -> None:
        """A pack waits in the group of its range."""
        group = shuffle.hold()
        if shuffle.held > self.share * shuffle.sizes.memory_bytes:
            for group in shuffle.groups:
                shuffle.merge(group)
        elif group.n >= self.most:
            shuffle.merge(group)

    def ended(self, shuffle: Shuffle) -> None:
        """The last round; a pack that is alone goes to the reduces as it is, and so would all that
        is not merged here."""
        for group in shuffle.groups:
            if group.n > 1:
                shuffle.merge(group)


def main() -> None:
    ray.init(num_cpus=2)
    ds = skate.data.range(100_000, override_num_blocks=20)
    ds = ds.map_batches(lambda b: {"id": b["id"], "key": b["id"] * 7919 % 1000})

    mine = ds.sort("key", strategy=Rounds(most=5)).materialize()
    same = mine.take_all() == ds.sort("key", strategy="simple").take_all()
    by_key = ds.groupby("key", strategy=Rounds()).sum("id")
    shuffled = ds.random_shuffle(seed=1, strategy=Rounds())

    exchange = next(o["exchange"] for o in mine.stats_dict()["ops"] if "exchange" in o)
    print(f"{exchange['strategy']} merged up to {exchange['merge']} packs a task")
    print(f"sorted as by another strategy: {same}")
    print(f"{by_key.count():,} keys, sum {shuffled.sum('id'):,}")


if __name__ == "__main__":
    main()
