"""Daft's Ray runner gives what its native one gives. The runner of a process is chosen once: the
native one runs in a process of its own."""

import json
import subprocess
import sys


def answers(daft, where):
    col = daft.col
    df = daft.from_pydict(
        {"k": [i % 7 for i in range(10_000)], "v": [float(i) for i in range(10_000)]}
    )

    @daft.func
    def twice(x: float) -> float:
        return 2 * x

    df.write_parquet(where)
    back = daft.read_parquet(where + "/*.parquet")
    means = df.groupby("k").agg(col("v").mean().alias("m"))
    return [
        df.groupby("k").agg(col("v").sum().alias("s")).sort("k").to_pydict(),
        df.with_column("w", twice(col("v"))).agg(col("w").sum()).to_pydict(),
        back.join(means, on="k").where(col("v") > col("m")).count_rows(),
        back.into_partitions(4).sort("v", desc=True).limit(3).to_pydict(),
        df.repartition(3, "k").distinct("k").count_rows(),
    ]


if sys.argv[1:] == ["native"]:
    import daft

    daft.set_runner_native()
    print(json.dumps(answers(daft, "native")))
else:
    import daft
    import ray

    ray.init(num_cpus=2)
    daft.set_runner_ray()
    here = json.loads(json.dumps(answers(daft, "ray")))
    assert here == json.loads(
        subprocess.run(
            [sys.executable, __file__, "native"], capture_output=True, check=True, text=True
        ).stdout
    )
