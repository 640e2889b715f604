"""skate in notebooks: kernels as Jupyter runs them, without a browser. Also runs the notebooks of
examples/notebooks."""

import contextlib
import os
import re
from pathlib import Path

import pytest
import skate
from patience import eventually

ROOT = Path(__file__).parents[3]
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
ENV = {
    **os.environ,
    "PYTHONPATH": str(Path(skate.__file__).parents[1]),
    "SKATE_NUM_CPUS": "2",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}


class Kernel:
    """A kernel; run() gives what a cell shows."""

    def __init__(self):
        # not at import: each process of `./dev test` imports this file, and one runs it
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(env=ENV)

    def begin(self, code):
        return self.client.execute(code)

    def end(self, asked):
        """The messages of a cell until the kernel is idle, as (kind, content)."""
        seen = []
        while True:
            m = self.client.get_iopub_msg(timeout=60)
            if m["parent_header"].get("msg_id") != asked:
                continue
            if m["msg_type"] == "status" and m["content"]["execution_state"] == "idle":
                return seen
            seen.append((m["msg_type"], m["content"]))

    def run(self, code):
        seen = self.end(self.begin(code))
        errors = [c for kind, c in seen if kind == "error"]
        assert not errors, "\n".join(errors[0]["traceback"])
        return seen

    def html(self, code):
        """The HTML of a cell's value."""
        (shown,) = [c["data"] for kind, c in self.run(code) if kind == "execute_result"]
        return shown["text/html"]

    def printed(self, seen):
        return "".join(c["text"] for kind, c in seen if kind == "stream")

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)


@pytest.fixture(scope="module")
def kernel():
    with contextlib.closing(Kernel()) as k:
        k.run("import os, signal, time\nimport skate, skate.data as sd\nskate.init(num_cpus=2)")
        yield k
        k.run("skate.shutdown()")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebooks_of_the_examples_run(path, tmp_path):
    import nbformat
    from nbclient import NotebookClient

    nb = nbformat.read(path, 4)
    for cell in nb.cells:
        assert cell.cell_type != "code" or (not cell.outputs and cell.execution_count is None), (
            "notebooks are stored without outputs"
        )
    client = NotebookClient(nb, timeout=60, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env=ENV)
    shown = [o for c in nb.cells if c.cell_type == "code" for o in c.outputs]
    assert any("text/html" in o.get("data", {}) for o in shown)


def test_what_tasks_print_comes_to_the_cell(kernel):
    seen = kernel.run(
        """
@skate.remote
def hello(i):
    print("hello from a task", i)
    return i
skate.get([hello.remote(i) for i in range(3)])
"""
    )
    text = kernel.printed(seen)
    assert [f"hello from a task {i}" in text for i in range(3)] == [True] * 3, text
    # also what is printed in a Dataset, by a function of the cell
    seen = kernel.run(
        """
def f(b):
    print("a batch of", len(b["id"]))
    return b
sd.range(8, override_num_blocks=1).map_batches(f).count()
"""
    )
    assert "a batch of 8" in kernel.printed(seen)


def test_values_are_short_and_escaped(kernel):
    kernel.run("ds = sd.from_items([{'<script>alert(1)</script>': i} for i in range(100)])")
    for value in ("ds", "ds.schema()", "ds.materialize()"):
        page = kernel.html(value)
        assert "<script" not in page and "&lt;script&gt;alert" in page and len(page) < 3000
    kernel.run("def f(r): 1 / 0\nlazy = ds.map(f)")  # a value that is shown runs nothing
    assert "Map(f)" in kernel.html("lazy") and "Map(f)" in kernel.html("lazy.explain_text()")
    kernel.run(
        """
wide = sd.from_items([{f"c{i}": 1 for i in range(500)}])
class Counter:
    def add(self, n): return n
    def _hidden(self): pass
a = skate.remote(Counter).remote()
done = a.add.remote(1)
skate.get(done)
never = skate.remote(lambda: time.sleep(60)).remote()
"""
    )
    assert "… 460 more" in kernel.html("wide.schema()") and len(kernel.html("wide")) < 5000
    assert "Actor(Counter, " in kernel.html("a") and kernel.html("a").endswith("methods: add</p>")
    assert "its value exists" in kernel.html("done")
    assert "does not exist yet" in kernel.html("never")
    assert "of no object" in kernel.html("skate.ObjectRef.nil()")
    kernel.run("skate.cancel(never, force=True)\nn = ds.map(lambda r: r)\nn.take_all()")
    for value in ("n.stats()", "n._stats"):
        assert "Map(&lt;lambda&gt;)" in kernel.html(value)


def test_the_bar_stays_as_a_summary(kernel):
    seen = kernel.run(
        """
def slow(b):
    time.sleep(0.12)
    return b
rows = sd.range(1000, override_num_blocks=12).map_batches(slow).count()
"""
    )
    shown = [c["data"] for kind, c in seen if kind == "display_data"]
    updates = [c["data"] for kind, c in seen if kind == "update_display_data"]
    assert len(shown) == 1 and updates
    assert 'role="progressbar"' in shown[0]["text/html"]
    assert re.search(r"slow\).*: done · 12 rows · \d:\d\d:\d\d", updates[-1]["text/plain"])
    assert "<script" not in updates[-1]["text/html"]


INTERRUPTED = {
    "get": "refs = [skate.remote(wait).remote(None)]\nskate.get(refs[0])",
    "tasks": "refs = [skate.remote(wait).remote(None) for i in range(8)]\nskate.get(refs)",
    "iteration": "for b in sd.range(100, override_num_blocks=50).map_batches(wait).iter_batches(): pass",
    "loop": """
for b in sd.range(100, override_num_blocks=50).iter_batches(batch_size=1):
    open(began, "w").close()
    time.sleep(60)
""",
}


@pytest.mark.parametrize("what", INTERRUPTED)
def test_an_interrupt_leaves_a_kernel_that_works(kernel, what, tmp_path):
    began = tmp_path / "began"
    kernel.run(
        f"""
began, refs = {str(began)!r}, []
def wait(b):
    open(began, "w").close()
    time.sleep(60)
    return b
"""
    )
    asked = kernel.begin(INTERRUPTED[what])
    eventually(began.exists)  # what the cell runs has begun
    kernel.manager.interrupt_kernel()
    seen = kernel.end(asked)
    assert [c["ename"] for kind, c in seen if kind == "error"] == ["KeyboardInterrupt"], seen
    # tasks of a program go on, until it cancels them
    kernel.run("for r in refs: skate.cancel(r, force=True)")
    seen = kernel.run("print(skate.get(skate.remote(lambda: 42).remote()), sd.range(10).count())")
    assert "42 10" in kernel.printed(seen)


def test_a_kernel_starts_the_engine_again_and_again():
    with contextlib.closing(Kernel()) as k:
        seen = k.run(
            """
import os, skate
fds = []
for i in range(40):
    skate.init(num_cpus=1)
    if i % 13 == 0:
        assert skate.get(skate.remote(lambda: i).remote()) == i
    skate.shutdown()
    fds.append(len(os.listdir("/proc/self/fd")))
print("descriptors", fds[20] >= fds[-1])
"""
        )
    assert "descriptors True" in k.printed(seen)
