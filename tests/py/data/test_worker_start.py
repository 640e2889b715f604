"""What a fresh worker still has to do, in a new program in which nothing else has run or was
imported."""

import subprocess
import sys


def main(path):
    import numpy as np
    import skate
    import skate.data as sd

    def tensors(b):
        yield {"x": np.ones((2, 3)), "n": np.ones((2, 2, 2), np.uint8)}

    def modules(b):
        x = b["x"] + b["n"][:, 0, :1]
        return {"m": np.array([" ".join(sys.modules)], object), "x": x[:1], "n": b["n"][:1]}

    @skate.remote(num_cpus=0)
    class Fresh:
        def modules(self):
            import gc
            import os

            return set(sys.modules), gc.get_freeze_count(), gc.isenabled(), os.getpid()

    def fresh():
        actors = [Fresh.remote() for _ in range(8)]  # more actors than there are workers to reuse
        return {pid: rest for *rest, pid in skate.get([a.modules.remote() for a in actors])}

    skate.init(num_cpus=2)
    ds = (
        sd.range(4, override_num_blocks=2)
        .map_batches(tensors, batch_size=None)
        .map_batches(modules, batch_size=None)
    )
    used = {
        m
        for r in ds.map_batches(modules, batch_size=None, num_cpus=0.9).take_all()
        for m in r["m"].split()
    }
    assert not {"pandas", "numpy.ma"} & used
    old = fresh()
    ds.drop_columns(["x", "n"]).write_parquet(path)
    # workers run the phases of exchanges, too
    assert sd.range(4).filter(expr="id > 1").groupby("id").count().count() == 2
    got = fresh()
    new = [got[pid] for pid in got if pid not in old]
    there = set.intersection(*(modules for modules, *_ in new))
    assert {
        "skate.data.worker.stage",
        "skate.data.read.formats.range",
        "skate.data.write.parquet",
        "pyarrow.parquet",
    } <= there
    assert {
        "skate.data.op.aggregate_map",
        "skate.data.by_key.kernel_aggregates",
        "skate.data.expr.evaluation",
    } <= there
    assert not used - there, sorted(used - there)
    assert all(frozen > 1000 and enabled for _, frozen, enabled in new)


def test_workers_import_nothing_that_the_fork_server_could(tmp_path):
    """Each worker would pay for such an import again, in time and in its own memory; pandas (0.2 s,
    40 MB) is imported only by programs that use it."""
    subprocess.run([sys.executable, __file__, str(tmp_path)], check=True, timeout=240)


if __name__ == "__main__":
    main(sys.argv[1])
