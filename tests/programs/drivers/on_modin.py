"""Modin on its Ray engine: data frames are those of pandas."""

import os
import warnings

os.environ["MODIN_ENGINE"] = "ray"
warnings.filterwarnings("ignore")
import modin.config  # noqa: E402
import modin.pandas as pd  # noqa: E402
import numpy as np  # noqa: E402
import pandas  # noqa: E402
import ray  # noqa: E402

ray.init(num_cpus=2)
table = pandas.DataFrame(
    {
        "k": np.arange(100_000) % 13,
        "v": np.arange(100_000.0),
        "s": [f"x{i % 5}" for i in range(100_000)],
    }
)
frame = pd.DataFrame(table)
table.to_csv("a.csv", index=False)
table.to_parquet("a.parquet")


def answers(pd, t):
    return [
        t.groupby("k").sum(numeric_only=True),
        t.sort_values("v", ascending=False),
        t.merge(t.groupby("k").mean(numeric_only=True), on="k"),
        t.assign(w=t.v.apply(lambda x: x * 2)),
        pd.read_csv("a.csv"),
        pd.read_parquet("a.parquet"),
        pd.concat([t, t]),
        t.describe(),
        t[t.v % 2 == 0].s.value_counts().sort_index().to_frame(),
    ]


for a, b in zip(answers(pandas, table), answers(pd, frame)):
    pandas.testing.assert_frame_equal(a, b._to_pandas())
assert modin.config.Engine.get() == "Ray"
