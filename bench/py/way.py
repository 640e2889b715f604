"""way.py: how far it is from Dataset.write_parquet to C, and how often a block crosses between
Python and C.

Runs read_parquet -> map_batches -> write_parquet under a profile hook and prints, for the tree that
`import skate` finds:
calls, files, hops: Python calls of skate's files in the driver, from the first line of the pipeline
until the run is given to C (_skate.Exec), the files they are in, and the calls that go from one
file to another; block_driver, block_worker: calls from skate's Python into _skate that one block
more costs (of a run of 40 blocks less those of a run of 20)."""

import collections
import os
import sys
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import skate
import skate.data as sd
from skate import _skate

OWN = os.path.dirname(skate.__file__) + os.sep


class Way:
    """Counts what happens in this thread while it is entered."""

    def __init__(self):
        self.calls, self.files, self.hops, self.into_c, self.done = (
            0,
            set(),
            0,
            collections.Counter(),
            False,
        )

    def look(self, frame, event, arg):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(OWN) and not self.done:
            self.calls += 1
            self.files.add(name)
            above = frame.f_back
            self.hops += (
                above is not None
                and above.f_code.co_filename.startswith(OWN)
                and above.f_code.co_filename != name
            )
        elif event == "c_call" and name.startswith(OWN):
            owner = getattr(arg, "__self__", None)
            of_skate = (
                getattr(arg, "__module__", None) == _skate.__name__
                or owner is _skate
                or type(owner).__module__.endswith("_skate")
            )
            if of_skate:
                self.into_c[arg.__qualname__] += 1

    def __enter__(self):
        exec_type = _skate.Exec

        def given(*args, **kwargs):
            self.done = True
            return exec_type(*args, **kwargs)

        self.put_back = exec_type
        _skate.Exec = given
        sys.setprofile(self.look)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        _skate.Exec = self.put_back


def same(batch):
    return batch


def write(folder, n):
    """One run of n blocks: its Way."""
    src = f"{folder}/in{n}"
    os.mkdir(src)
    for i in range(n):
        pq.write_table(pa.table({"id": np.arange(100) + i}), f"{src}/{i:03d}.parquet")
    with Way() as way:
        sd.read_parquet(src, override_num_blocks=n).map_batches(same).write_parquet(
            f"{folder}/out{n}"
        )
    return way


def counting(n):
    """A run whose function counts what the worker's Python asks of C between two blocks: the calls
    of one block, summed over a run."""

    def count(batch):
        import sys as system

        from skate import _skate as c

        found = getattr(c, "_way", None)
        if found is None:
            found = c._way = [0]

            def look(frame, event, arg):
                if event == "c_call" and "skate" in frame.f_code.co_filename:
                    owner = getattr(arg, "__self__", None)
                    if (
                        getattr(arg, "__module__", None) == c.__name__
                        or owner is c
                        or type(owner).__module__.endswith("_skate")
                    ):
                        found[0] += 1

            system.setprofile(look)
        was, found[0] = found[0], 0
        return {"n": np.array([was])}

    rows = sd.range(n, override_num_blocks=n).map_batches(count).take_all()
    return [r["n"] for r in rows]


def main():
    skate.init(num_cpus=1, object_store_memory=256 << 20)
    with tempfile.TemporaryDirectory() as folder:
        write(folder, 3)  # what is imported at first use is no part of the way
        few, many = write(folder, 20), write(folder, 40)
    print("calls", few.calls)
    print("files", len(few.files))
    print("hops", few.hops)
    print("block_driver", (sum(many.into_c.values()) - sum(few.into_c.values())) / 20)
    worker = sorted(counting(40))
    print("block_worker", float(worker[len(worker) // 2]))
    skate.shutdown()


main()
