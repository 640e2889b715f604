"""What a fresh worker has yet to do. One test: the engine of this file has run nothing else."""

import numpy as np
import skate
import skate.data as sd


def test_workers_import_nothing_that_the_fork_server_could(tmp_path):
    """Each of them would pay for it again, in time and in pages of its own."""

    def tensors(b):
        yield {"x": np.ones((2, 3)), "n": np.ones((2, 2, 2), np.uint8)}

    def modules(b):
        import sys

        x = b["x"] + b["n"][:, 0, :1]
        return {"m": np.array([" ".join(sys.modules)], object), "x": x[:1]}

    @skate.remote(num_cpus=0)
    class Fresh:
        def modules(self):
            import gc
            import os
            import sys

            return set(sys.modules), gc.get_freeze_count(), gc.isenabled(), os.getpid()

    ds = sd.range(4, override_num_blocks=2).map_batches(tensors, batch_size=None).map_batches(modules, batch_size=None)
    used = set(ds.take_all()[0]["m"].split())
    ds.write_parquet(str(tmp_path))
    actors = [Fresh.remote() for _ in range(8)]  # more than there are workers to use again
    got = skate.get([a.modules.remote() for a in actors])
    assert len({pid for *_, pid in got}) == len(actors)
    there = set.intersection(*(modules for modules, *_ in got))
    assert {"skate.data.stage", "skate.data.read.range", "skate.data.write.parquet"} <= there
    assert not used - there, sorted(used - there)
    assert all(frozen > 1000 and enabled for _, frozen, enabled, _ in got)
