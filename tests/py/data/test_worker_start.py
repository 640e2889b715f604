"""What a fresh worker has yet to do. One test: the engine of this file has run nothing else."""

import numpy as np
import skate
import skate.data as sd


def test_workers_import_nothing_that_the_fork_server_could(tmp_path):
    """Each of them would pay for it again, in time and in pages of its own; pandas (0.2 s, 40 MB) is for who uses it."""

    def modules(b):
        import sys

        before = b["m"][0] if "m" in b else ""
        return {"m": np.array([before + " " + " ".join(sys.modules)], object), "x": np.zeros((1, 2, 3))}

    @skate.remote(num_cpus=0)
    class Fresh:
        def modules(self):
            import gc
            import os
            import sys

            return set(sys.modules), gc.get_freeze_count(), gc.isenabled(), os.getpid()

    def fresh():
        actors = [Fresh.remote() for _ in range(8)]  # more than there are workers to use again
        return {pid: rest for *rest, pid in skate.get([a.modules.remote() for a in actors])}

    ds = sd.range(4, override_num_blocks=2).map_batches(modules, batch_size=None)
    used = {m for r in ds.map_batches(modules, batch_size=None, num_cpus=0.9).take_all() for m in r["m"].split()}
    assert "pandas" not in used
    old = fresh()
    ds.drop_columns(["x"]).write_parquet(str(tmp_path))
    got = fresh()
    new = [got[pid] for pid in got if pid not in old]
    there = set.intersection(*(modules for modules, *_ in new))
    assert {"skate.data.stage", "skate.data.read.range", "skate.data.write.parquet"} <= there
    assert not used - there
    assert all(frozen > 1000 and enabled for _, frozen, enabled in new)
