"""Every module of skate.data can be the first module that a process imports, as happens in
unpickling."""

import inspect
import os
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
import skate.data
import skate.data.read.formats

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(skate.data.__file__))))
MODULES = sorted(m.name for m in pkgutil.walk_packages(skate.data.__path__, "skate.data."))


def fresh(code, args=(), **more):
    env = {**os.environ, "PYTHONPATH": ROOT}
    return subprocess.run(
        [sys.executable, "-c", code, *args], env=env, capture_output=True, timeout=120, **more
    )


EACH_FIRST = """
import importlib, sys
import numpy, pandas, pyarrow.compute, pyarrow.csv, pyarrow.dataset, pyarrow.fs, pyarrow.json, pyarrow.parquet
import skate

there = set(sys.modules)

def forget():
    for name in [n for n in sys.modules if n not in there and n.partition(".")[0] == "skate"]:
        module = sys.modules.pop(name)
        package, _, child = name.rpartition(".")
        if getattr(sys.modules.get(package), "__dict__", {}).get(child) is module:
            delattr(sys.modules[package], child)
    for name in ("skate.python_object", "ray.data.arrow_tensor"):  # what an import registers
        try:
            pyarrow.unregister_extension_type(name)
        except KeyError:
            pass

for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as e:
        e.add_note(name)
        raise
    forget()
print("skate.data" in sys.modules, "skate.data.dataset" in sys.modules)
"""


@pytest.mark.slow
def test_every_module_first():
    """One process forgets skate.data before it imports the next module: a process or a fork for
    each would take three times the CPU time."""
    assert "skate.data.dataset" in MODULES and "skate.data.read.files" in MODULES
    r = fresh(EACH_FIRST, args=MODULES)
    assert (r.returncode, r.stdout) == (0, b"False False\n"), r.stderr.decode()


def test_only_the_room_of_values_loads_arrow_when_it_is_imported():
    """A driver imports Arrow and NumPy while its workers start; the classes in `extensions` need
    pandas."""
    heavy = ("skate.data.values.", "skate.data.extensions")
    light = [m for m in MODULES if not m.startswith(heavy)]
    assert len(light) > 150
    code = f"import sys, importlib\nfor m in {light!r}:\n    importlib.import_module(m)\n"
    code += "    found = {'numpy', 'pyarrow', 'pandas', 'torch', 'asyncio'} & set(sys.modules)\n    assert not found, (m, found)\n"
    r = fresh(code)
    assert r.returncode == 0, r.stderr.decode()


@pytest.mark.slow
def test_unpickled_first():
    things = ["TaskPoolStrategy(2)", "SaveMode.APPEND", "Schema", "Dataset"]
    _ = [getattr(skate.data, n) for n in skate.data.__all__]
    data = [pickle.dumps(eval(thing, vars(skate.data))) for thing in things]
    code = f"import os, pickle, pyarrow\nfor thing, data in zip({things!r}, {data!r}):\n    pid = os.fork()\n    if not pid:\n        pickle.loads(data)\n"
    code += "        os._exit(0)\n    assert os.waitpid(pid, 0)[1] == 0, thing\n"
    r = fresh(code)
    assert r.returncode == 0, r.stderr.decode()


def test_importing_the_package_is_light():
    r = fresh(
        "import sys, skate.data; assert not {'numpy', 'pyarrow', 'skate.data.dataset'} & set(sys.modules), 'heavy'"
    )
    assert r.returncode == 0, r.stderr.decode()


def test_names_of_the_package():
    """The stub of the package has each reader, and each name exists."""
    from_files = {
        f"read_{p.stem}"
        for p in Path(skate.data.read.formats.__path__[0]).glob("*.py")
        if f"def read_{p.stem}(" in p.read_text()
    }
    assert len(from_files) > 15 and from_files < set(skate.data.__all__) <= set(dir(skate.data))
    for name in skate.data.__all__:
        assert getattr(skate.data, name) is vars(skate.data)[name], name
        if name.startswith(("read_", "from_")):
            assert inspect.signature(getattr(skate.data, name)).return_annotation.endswith(
                "Dataset"
            )
    assert inspect.signature(skate.data.from_items).return_annotation == "MaterializedDataset"
    assert inspect.signature(skate.data.from_torch).return_annotation == "Dataset"
    for hidden in "reads", "arrow", "_range":  # names of the stub only
        assert not hasattr(skate.data, hidden)


def test_names_are_read_from_the_stub(tmp_path, monkeypatch):
    """Names are read however the stub's lines are broken, and no module is imported before its name
    is used."""
    package = tmp_path / "named"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from skate import _lazy\n_names = _lazy.Names(__name__, ('a',))\n"
        "__getattr__, __dir__ = _names.get, _names.dir\n"
    )
    (package / "__init__.pyi").write_text(
        "# A comment.\n\nfrom named import a as a\nfrom named import b as b\n"
        "from named.a import (\n    X as X,\n    Y as Y,\n)\nfrom named.b import twice\n"
        'from named import c, a as _a\nZ = twice(c.one)\nW = twice(_a.X, "end")\nn: int\n'
    )
    (package / "a.py").write_text("X, Y = 'x', 'y'\n")
    (package / "b.py").write_text("def twice(v, more=''):\n    return v + v + more\n")
    (package / "c.py").write_text("one = 'c'\n")
    monkeypatch.syspath_prepend(tmp_path)
    import named  # pyright: ignore[reportMissingImports]

    assert named.__all__ == ["W", "X", "Y", "Z", "a"] and {"b", "Z"} < set(dir(named))
    assert not [m for m in sys.modules if m.startswith("named.")]
    assert (named.Y, named.X) == ("y", "x") and "named.b" not in sys.modules
    assert (named.Z, named.W) == ("cc", "xxend")
    with pytest.raises(AttributeError, match="module 'named' has no attribute 'twice'"):
        _ = named.twice
    everything: dict[str, object] = {}
    exec("from named import *", everything)
    assert set(everything) - {"__builtins__"} == set(named.__all__)


@pytest.mark.slow
def test_what_a_dataset_needs_is_light():
    """asyncio, with ssl and subprocess, would take a fifth of the time to the first rows."""
    code = "import sys, skate.data; skate.data.range(3).map(print); from skate.data.run import execute\n"
    r = fresh(
        code
        + "heavy = {'asyncio', 'ssl', 'subprocess', 'pandas', 'pyarrow.compute'} & set(sys.modules); assert not heavy, heavy"
    )
    assert r.returncode == 0, r.stderr.decode()


def test_a_service_actor_imports_nothing_that_runs_a_plan():
    """A service actor holds references in a process of its own."""
    code = "import sys, skate.data.run.service_actors\n"
    r = fresh(
        code
        + "data = [m for m in sys.modules if m.startswith('skate.data.') or m in ('numpy', 'pyarrow')]; assert len(data) == 3, data"
    )
    assert r.returncode == 0, r.stderr.decode()


@pytest.mark.slow
def test_tensors_import_neither_pandas_nor_kernels():
    """A worker that makes and reads arrays imports neither: they would take 0.3 s and 60 MB in each
    worker."""
    code = """
import sys, numpy as np, skate.data.worker.rows, skate.data.worker.stage
from skate.data import range
from skate.data.values import batch, numpy_batch, row_dicts, selection
for x in np.ones((4, 3)), np.ones((4, 2, 2), np.uint8):
    rb = batch.from_batch({"x": x, "i": np.arange(4)}, "f")[0].slice(1, 2)
    got = numpy_batch.NumpyBatch(rb)
    assert (got["x"] == x[1:3]).all() and (got["i"] == [1, 2]).all()
    assert (np.array(row_dicts.to_rows(rb)[1]["x"]) == x[2]).all()
assert "pyarrow._compute" not in sys.modules  # 4 ms, which filter alone needs
for x in np.ones((4, 3)), np.ones((4, 2, 2), np.uint8):
    rb = batch.from_batch({"x": x, "i": np.arange(4)}, "f")[0].slice(1, 2)
    assert selection.where(rb, np.array([False, True]))["i"].to_pylist() == [2]
heavy = {"pandas", "pyarrow.compute"} & set(sys.modules)
assert not heavy, heavy
"""
    r = fresh(code)
    assert r.returncode == 0, r.stderr.decode()


@pytest.mark.slow
def test_expressions_import_no_pandas():
    """Each worker that filters would have to import it."""
    code = """
import sys, datetime, pyarrow as pa
from skate.data.expr.evaluation import mask, parse
rb = pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(bytes(24))])], names=["x"])
text = rb.set_column(0, "x", pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(bytes(16)), pa.py_buffer(b"")]))
assert [mask(parse(t), rb).to_pylist() for t in ("x <= 3", "x > 1.5", "x % 2 == 0 and x // 2 < 1")] == [[True] * 3, [False] * 3, [True] * 3]
assert mask(parse("x == 'a'"), text).to_pylist() == [False] * 3
assert "pandas" not in sys.modules
"""
    r = fresh(code)
    assert r.returncode == 0, r.stderr.decode()


def test_public_readers_are_pickled_by_name():
    for name in ("range", "read_parquet", "from_items", "read_csv"):
        reader = getattr(skate.data, name)
        assert pickle.loads(pickle.dumps(reader)) is reader and len(pickle.dumps(reader)) < 60


def test_what_a_sink_imports_in_workers_runs_no_pipeline():
    r = fresh(
        "import sys, skate.data.write.sink; assert 'skate.data.run.execute' not in sys.modules"
    )
    assert r.returncode == 0, r.stderr.decode()


def test_the_keywords_that_errors_guess_from_are_those_of_the_methods():
    import inspect

    from skate.data.plan import resources

    methods = [
        getattr(skate.data.Dataset, m)
        for m in "map map_batches flat_map filter add_column drop_columns select_columns rename_columns with_column".split()
    ]
    known = {
        p.name
        for m in methods
        for p in inspect.signature(m).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    }
    options = {
        "max_retries": 1,
        "max_restarts": 1,
        "max_task_retries": 1,
        "max_calls": 1,
        "max_concurrency": 1,
        "resources": {"x": 1},
        "runtime_env": {},
    }
    assert resources.ARGUMENTS == known | set(options)
    resources.resources(options)
