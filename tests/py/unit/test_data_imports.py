"""Every module of skate.data can be the first one that a process imports, as unpickling does."""

import os
import pickle
import pkgutil
import subprocess
import sys

import pytest
import skate.data
import skate.data._public

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(skate.data.__file__))))
MODULES = sorted(m.name for m in pkgutil.walk_packages(skate.data.__path__, "skate.data."))


def fresh(code, **more):
    env = {**os.environ, "PYTHONPATH": ROOT}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, timeout=120, **more)


@pytest.mark.slow
def test_every_module_first():
    assert "skate.data.dataset" in MODULES and "skate.data.read.files" in MODULES
    code = (
        "import os, importlib, skate.data\n"  # the packages come first in any case; what others wrote is imported once, not in each child
    )
    code += "import numpy, pandas, pyarrow.compute, pyarrow.csv, pyarrow.dataset, pyarrow.fs, pyarrow.json, pyarrow.parquet\n"
    code += f"for m in {MODULES!r}:\n    pid = os.fork()\n    if not pid:\n        importlib.import_module(m)\n        os._exit(0)\n"
    code += "    assert os.waitpid(pid, 0)[1] == 0, m\n"
    r = fresh(code)
    assert r.returncode == 0, r.stderr.decode()


def test_unpickled_first():
    things = ["TaskPoolStrategy(2)", "SaveMode.APPEND", "Schema", "Dataset"]
    data = [pickle.dumps(eval(thing, vars(skate.data._public))) for thing in things]
    code = f"import os, pickle, pyarrow\nfor thing, data in zip({things!r}, {data!r}):\n    pid = os.fork()\n    if not pid:\n        pickle.loads(data)\n"
    code += "        os._exit(0)\n    assert os.waitpid(pid, 0)[1] == 0, thing\n"
    r = fresh(code)
    assert r.returncode == 0, r.stderr.decode()


def test_importing_the_package_is_light():
    r = fresh("import sys, skate.data; assert not {'numpy', 'pyarrow', 'skate.data.dataset'} & set(sys.modules), 'heavy'")
    assert r.returncode == 0, r.stderr.decode()


def test_tensors_import_neither_pandas_nor_kernels():
    """A worker that makes and takes arrays pays for neither: 0.3 s and 60 MB in each of them."""
    code = """
import sys, numpy as np, skate.data.stage
from skate.data import _public, batch
for x in np.ones((4, 3)), np.ones((4, 2, 2), np.uint8):
    rb = batch.from_batch({"x": x, "i": np.arange(4)}, "f")[0].slice(1, 2)
    got = batch.NumpyBatch(rb)
    assert (got["x"] == x[1:3]).all() and (got["i"] == [1, 2]).all()
    assert (np.array(batch.to_rows(rb)[1]["x"]) == x[2]).all()
heavy = {"pandas", "pyarrow.compute"} & set(sys.modules)
assert not heavy, heavy
"""
    r = fresh(code)
    assert r.returncode == 0, r.stderr.decode()
