"""A first pipeline: read, map, filter, aggregate. Run: python examples/quickstart.py"""

import numpy as np
import skate
import skate.data


def squares(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"id": batch["id"], "square": batch["id"] ** 2}


if __name__ == "__main__":
    ds = skate.data.range(1_000_000).map_batches(squares).filter(expr="square % 3 == 1")
    print(ds.take(3))
    print("rows:", ds.count(), "sum:", ds.sum("square"))
    for batch in ds.iter_batches(batch_size=250_000):
        print("a batch of", len(batch["id"]), "rows")
    ds.count()
    print(ds.stats())
