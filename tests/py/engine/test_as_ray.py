"""`skate run` and skate.as_ray(): programs with `import ray`. Each runs in a new process, because
as_ray() cannot be undone."""

import os
import subprocess
import sys

import pytest

PYTHON = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))),
    "python",
)


def run(*args, cwd=None, skate=True, **env):
    """Runs `python -m skate run ARGS`; returns its output, its errors and its status."""
    command = [sys.executable, *(("-m", "skate", "run") if skate else ()), *args]
    env = {**os.environ, "PYTHONPATH": PYTHON, "SKATE_NUM_CPUS": "2", **env}
    p = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120)
    return p.stdout, p.stderr, p.returncode


PROGRAM = """
import importlib.metadata, importlib.util, pickle, subprocess, sys

assert importlib.util.find_spec("ray").name in ("ray", "skate") and "ray" not in sys.modules
import ray
import skate
from ray.util.placement_group import placement_group
from ray.exceptions import RayTaskError
import ray.data.datasource

import beside  # its folder is that of the script

assert ray is skate and ray.data is skate.data and ray.data.datasource is skate.data.datasource
assert ray.util.placement_group is placement_group is skate.util.placement_group  # the function, not the module
assert ray._private.services.get_node_ip_address() == ray.nodes()[0]["NodeManagerAddress"]
assert ray._raylet.ObjectRefGenerator is ray.ObjectRefGenerator and ray.logger.name
assert tuple(map(int, ray.__version__.split(".")[:2])) >= (2, 40)
assert importlib.metadata.version("ray") == ray.__version__
assert pickle.loads(pickle.dumps(RayTaskError)) is RayTaskError
assert importlib.util.find_spec("ray.data") and importlib.util.find_spec("ray.serve") is None

@ray.remote
def f(x):
    import ray
    import ray.util.queue
    from ray.exceptions import RayTaskError
    import beside
    return x + 1, ray.__name__, RayTaskError, ray.get(beside.g.remote())

assert ray.get(f.remote(1)) == (2, "skate", RayTaskError, 5)
assert ray.get(f.options(runtime_env={"env_vars": {"A": "b"}}).remote(1))[3] == 5
assert ray.data.range(3).map_batches(lambda b: {"v": [beside.h()] * len(b["id"])}).take_all()[0] == {"v": 7}

class Shown(Exception): pass
def missing(code):
    try:
        exec(code)
    except (ImportError, AttributeError) as e:
        return f"{type(e).__name__}: {e}"
assert "no ray.serve (not planned" in missing("from ray import serve")
assert "no ray.serve (not planned" in missing("import ray.serve.llm")
assert missing("ray.tune").startswith("AttributeError") and "not planned" in missing("ray.tune")
assert "no ray.util.collective" in missing("from ray.util import collective")
assert "no ray.nothing" in missing("import ray.nothing")
assert "deprecated by Ray" in missing("from ray.util.iter import from_items")
assert "deprecated by Ray" in missing("import ray.util.actor_group")
assert missing("ray.util.actor_group").startswith("AttributeError") and not hasattr(ray.util, "client")
# programs of their own that this one starts have their own Ray, or none
p = subprocess.run([sys.executable, "-c", "import ray; print(ray.__version__)"], capture_output=True, text=True)
assert p.stdout != ray.__version__ + "\\n"
print(sys.argv, __name__, sys.modules["__main__"].f is f)
raise Shown("at the end")
"""


def test_script(tmp_path):
    (tmp_path / "beside.py").write_text(
        "import ray\n@ray.remote\ndef g():\n    return 5\ndef h():\n    import ray.data\n    return 7 if ray.data.__name__ == 'skate.data' else 0\n"
    )
    script = tmp_path / "prog.py"
    script.write_text(PROGRAM)
    out, err, rc = run(str(script), "a", "-m", "--help")
    assert out == f"{[str(script), 'a', '-m', '--help']!r} __main__ True\n", err
    assert (
        rc == 1
        and err.startswith(f'Traceback (most recent call last):\n  File "{script}", line ')
        and err.count("File ") == 1
    ), err
    assert err.endswith("Shown: at the end\n")


def test_module_and_code(tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "__main__.py").write_text(
        "import sys, ray\nfrom . import __name__ as p\nprint(ray.get(ray.put(p)), sys.argv[1:])\nsys.exit(7)\n"
    )
    assert run("-m", "pkg", "x", "-c", cwd=tmp_path) == ("pkg ['x', '-c']\n", "", 7)
    assert run("-c", "import ray, sys; print(ray.__name__, sys.argv)", "y") == (
        "skate ['-c', 'y']\n",
        "",
        0,
    )


@pytest.mark.parametrize(
    "args, said",
    [
        (("nope.py",), "nope.py"),
        (("-m", "no.pe"), "no"),
        (("-x",), "no such option"),
        (("-c",), "an argument is wanted"),
    ],
)
def test_wrong_command(args, said, tmp_path):
    out, err, rc = run(*args, cwd=tmp_path)
    assert (
        (out, rc) == ("", 2)
        and err.startswith("skate run: ")
        and said in err
        and "Traceback" not in err
    )


def test_too_late(tmp_path):
    """as_ray() after another ray was imported, or after init(), is an error; a second call does
    nothing."""
    (tmp_path / "ray.py").write_text("")
    code = """
import skate
skate.init(num_cpus=1)
try: skate.as_ray()
except RuntimeError as e: print("before init()" in str(e))
skate.shutdown()
import ray
try: skate.as_ray()
except RuntimeError as e: print("before the first `import ray`" in str(e))
del __import__("sys").modules["ray"]
own = skate.__version__
skate.as_ray(); skate.as_ray()
import ray
print(ray is skate, skate.__version__ != own)
"""
    assert run("-c", code, cwd=tmp_path, skate=False) == ("True\nTrue\nTrue True\n", "", 0)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_multiprocessing_starts(tmp_path, method):
    """Such processes import the program again, with its `import ray` and the imports below it."""
    script = tmp_path / "prog.py"
    script.write_text(f"""
import multiprocessing, ray
import ray.data as data

def work(x):
    return x, ray.__name__, data.__name__, ray.__version__ == VERSION

VERSION = ray.__version__
if __name__ == "__main__":
    with multiprocessing.get_context("{method}").Pool(1) as pool:
        print(pool.map(work, [1]))
""")
    assert run(str(script)) == ("[(1, 'skate', 'skate.data', True)]\n", "", 0)


def test_the_first_thing_a_program_says(tmp_path):
    """No module of skate was used before. A value of the program's own on its DataContext reaches
    its functions, with a warning."""
    code = """
import skate; skate.as_ray()
import ray
ray.data.DataContext.get_current().foo = 70001
print(ray.data.range(1).map(lambda r: {"id": ray.data.DataContext.get_current().foo}).take_all())
"""
    out, err, status = run("-c", code, cwd=tmp_path, skate=False)
    assert (out, status) == ("[{'id': 70001}]\n", 0) and "no setting 'foo'" in err


def test_absent_are_absent():
    """No name in the table exists, since an existing name would never raise the table's error."""
    import importlib

    import skate
    from skate.compat import absent

    for name in absent.ABSENT:
        at = skate
        *folders, last = name.split(".")
        for part in folders:
            at = getattr(at, part)
        assert last not in vars(at) and not hasattr(at, last), name
        assert isinstance(at, type) or importlib.util.find_spec(f"skate.{name}") is None, name


def test_modules_that_only_programs_of_ray_ask_for():
    """Modules in compat/ray have Ray's path under both names, and are one module object."""
    room = os.path.join(PYTHON, "skate", "compat", "ray")
    files = (
        os.path.relpath(os.path.join(folder, f), room)
        for folder, _, names in os.walk(room)
        for f in names
        if f.endswith(".py") and folder + f != room + "__init__.py"
    )
    modules = sorted(f[:-3].replace(os.sep, ".").removesuffix(".__init__") for f in files)
    assert {"_raylet", "_private.worker", "util.annotations", "experimental.channel"} < set(modules)
    code = f"""
import importlib, sys
import ray
for name in {modules}:
    module = importlib.import_module("ray." + name)
    assert module is importlib.import_module("skate." + name), name
    assert module.__name__ == "skate." + name and module.__doc__, name
assert not [m for m in sys.modules if m.startswith("skate.compat.ray")]
print(len({modules}))
"""
    assert run("-c", code) == (f"{len(modules)}\n", "", 0)
