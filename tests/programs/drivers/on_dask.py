"""dask-on-ray: arrays, data frames, bags and delayed functions give what dask's own scheduler
gives."""

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
import numpy as np
import pandas as pd
import ray
from ray.util.dask import enable_dask_on_ray, ray_dask_get

ray.init(num_cpus=2)
x = da.random.RandomState(0).random((2000, 2000), chunks=(500, 500))
array = ((x + x.T) @ x).sum(axis=0)
assert np.allclose(array.compute(scheduler="sync"), array.compute(scheduler=ray_dask_get))

table = pd.DataFrame({"k": np.arange(100_000) % 7, "v": np.arange(100_000.0)})
frame = dd.from_pandas(table, npartitions=5)


def answers():
    return [
        frame.groupby("k").v.mean().compute(),
        frame.shuffle("k").compute().sort_index(),
        frame.sort_values("v", ascending=False).compute(),
        frame.merge(frame.groupby("k").v.sum().reset_index(), on="k")
        .compute()
        .sort_values("v_x", ignore_index=True),
        frame.assign(w=frame.v * 2).persist().w.sum().compute(),
        dask.bag.from_sequence(range(1000))
        .map(lambda i: i * i)
        .filter(lambda i: i % 2)
        .sum()
        .compute(),
        dask.delayed(sum)([dask.delayed(abs)(-i) for i in range(50)]).compute(),
    ]


with dask.config.set(scheduler="sync"):
    own = answers()
with enable_dask_on_ray():
    here = answers()
for a, b in zip(own, here):
    if isinstance(a, (pd.DataFrame, pd.Series)):
        (
            pd.testing.assert_frame_equal
            if isinstance(a, pd.DataFrame)
            else pd.testing.assert_series_equal
        )(a, b)
    else:
        assert a == b, (a, b)
