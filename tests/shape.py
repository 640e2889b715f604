"""The shape of the house in numbers: `./dev shape` prints them, tests/py/unit/test_shape.py holds
them.

What is counted: the largest ring of Python modules by imports, imports from a floor of Python up to
one above it (FLOORS), the largest ring of C files by calls (the symbols of the object files of the
last build), calls of the local engine's parts and of the rooms of ROOMED that are not declared;
writes to a struct of the local engine's driver by files that do not own it (OWNERS); struct tags
that exist twice; words of exchanges in exec; files of the largest folder of C and of Python; functions over
100 lines; assertions per 1,000 lines of C by layer; calls and lines of engine.h; lines of C and Python;
imports inside functions (late), by what is imported: skate, the standard library, packages of
others; imports of packages of others anywhere but in skate/_deps.py; modules of skate that others
have as stand-ins (the room values is one more); parameters `ds: Any`; what modules below dataset.py
read or write of a Dataset's private fields. BOUNDS are what the tree kept when they were set: a
change that makes the shape better lowers them, none raises them.
"""

import ast
import fnmatch
import functools
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONG = 100  # lines of a function

BOUNDS = {  # measure: the most (of the assertions: the least) that is allowed
    "python ring": 3,
    "python ring at load": 0,
    "python imports upward": 0,
    "python late imports of skate": 1,
    "python late imports of the library": 0,
    "python late imports of others": 4,
    "python imports of others, not by _deps": 0,
    "python stand-ins of skate": 10,
    "python functions over 100 lines": 0,
    "python parameters ds: Any": 0,
    "python private fields of a Dataset from below": 0,
    "c ring": 3,
    "c functions over 100 lines": 0,
    "engine.h calls": 16,
    "engine.h lines": 250,
    "asserts per kloc, ipc store engine": 16,
    "c writes across owners": 0,
    "bools of a task": 6,
    "c struct tags defined twice": 0,
    "words of exchanges in exec": 0,
    "files of the largest folder of C": 25,
    "files of the largest folder of Python": 25,
}

# folders whose files are found by their names, one for each operator or format: such a folder grows
# with what there is, and nobody has to know one of its files to read another
REGISTRIES = {"python/skate/data/op", "python/skate/data/read/formats"}

# of what the driver of the local engine keeps: the files in which it is written; everybody else
# reads it, and calls
OWNERS = {
    "l->space": "space space_evict space_mark space_memory space_read space_stuck",
    "l->stored": "stored",
    "l->pool": "pool",
    "l->mem": "memory",
    "l->actors": "actor",
    "l->groups": "group",
    "l->graphs": "extent",
    "l->moves": "moves",
    "l->promises": "promise",
    "l->recovery": "recover",
    "l->watches": "request",
    "l->due": "task",
    "l->tasks": "task",
    "l->fns": "functions",
    "l->past": "state",
    "l->show": "show",
    "l->stall": "loop",
    "l->host": "host",
    "l->n_lost": "recover",
    "l->n_worker_streams": "task",
    "l->n_nested": "task",
    "l->n_open": "task",
    "l->n_alone": "task",
    "l->n_cancel_rounds": "task",
    "l->driving": "calls_drive",
    "l->n_callers": "calls_drive",
    "l->progress": "",  # by the calls that local_int.h inlines
    "l->next_id": "",
    "l->place": "",  # all of it by calls of engine/place/place.h
    "sk_lactor": "actor",
    "sk_obj": "object",  # and below: where its bytes are, and what lineage has of it
    "sk_obj.st": "object stored",
    "sk_obj.where": "object stored",
    "sk_obj.u": "object stored",
    "sk_obj.maker": "object recover",
    "sk_obj.why": "recover",
    "sk_obj.known": "recover",
    "sk_obj.awaited": "recover",
    "sk_obj.spoiled": "recover",
    "sk_obj.stream_end": "stream",
    "sk_dep": "object",
    "sk_req": "request",
    "sk_req.n_ready": "request object",
    "sk_stored": "stored part",
    "sk_lworker": "link pool",
    # and below: members that another file owns; pool makes the entry, link frees it
    "sk_lworker.mem": "memory",
    "sk_lworker.sent": "send pool link",
    "sk_lworker.known": "send pool link",
    "sk_lworker.next_claim": "send",
    "sk_lworker.has_env": "send",
    "sk_lworker.claimed": "send",
    "sk_lworker.reqs": "request pool",
    "sk_lworker.watches": "request pool",
    "sk_lworker.n_mem_waits": "space_memory",
    "sk_lworker.has_lease": "space_memory",
    "sk_ltask": "task",  # and below: what other parts keep of a task
    "sk_ltask.extra": "task recover part",
    "sk_ltask.kept": "task recover",
    "sk_ltask.let_go": "task recover",
    "sk_ltask.remake": "task recover",
    "sk_ltask.stop": "task recover",
    "sk_ltask.actor": "actor",
    "sk_ltask.caller": "actor",
    "sk_ltask.held": "actor",
    "sk_ltask.kind": "actor submit task",
    "sk_ltask.on": "task actor send death",  # the lists of these
    "sk_ltask.claim": "send",
    "sk_ltask.worker": "send death",
    "sk_ltask.was_started": "death",
    "sk_ltask.actor_lives": "death",
    "sk_ltask.n_unready": "task object",
    "sk_ltask.space_epoch": "space_mark",
    "sk_ltask.ran_on": "state",
    "sk_ltask.ran_slot": "state",
    "sk_ltask.start_ns": "state",
    "sk_ltask.end_ns": "state",
    **{
        f"sk_ltask.{x}": "task stream yield"
        for x in "yields note_hash n_yielded n_taken n_released stream differs end_error end_rc end_failed end_kind end_inl end_oid".split()
    },
}
OWNED_BY_MEMBER = {
    "actor": "sk_lactor",
    "st": "sk_stored",
    "w": "sk_lworker",
    "worker": "sk_lworker",
    "o": "sk_obj",
    "req": "sk_req",
}  # members that point to an owned struct, whatever has them


# of Python, the highest first: a module imports from its own floor and from those below, when it is
# loaded and when it runs. The longest pattern that fits holds.
FLOORS = {
    "programs": "skate.__main__ skate._worker_main skate.compat.ray* skate.cli*",
    "names of data": """skate.data skate.data.dataset skate.data.methods* skate.data.grouped_data
        skate.data.random_access_dataset skate.data.trainers* skate.data.loader skate.data.iterator skate.data.llm skate.data.typed skate.data.preprocessor*
        skate.data.exceptions skate.data.read.formats.custom skate.data.read.formats.others skate.data.datasource""",
    "writes": "skate.data.write.job skate.data.write.resume skate.data.write.sink skate.data.write.fingerprint skate.data.datasource.lance_datasink",
    "run": "skate.data.run*",
    "plan": "skate.data.plan*",
    "worker": "skate.data.worker* skate.data.op skate.data.op.*",
    "formats": "skate.data.read* skate.data.write* skate.data.datasource.*",
    "expressions": "skate.data.expr* skate.data.aggregate skate.data.by_key* skate.data.summary skate.data.random_config",
    "columns": "skate.data.schema skate.data.datatype skate.data.block skate.data.collate_fn skate.data.util*",
    "values": "skate.data.values* skate.data.on_error skate.data.dominant_type skate.data.checks skate.data.extensions*",
    "files": "skate.data.files*",
    "settings": "skate.data.arguments skate.data.exchange_strategy skate.data.context skate.data.checkpoint* skate.data.files.local",
    "tensors": "skate.data.values.tensor_types skate.data.values.cells skate.data.values.flat skate.data.values.missing skate.data.settings",
    "tools": """skate.util.actor_pool skate.util.check_serialize skate.util.dask* skate.util.helpers skate.util.joblib* skate.util.multiprocessing*
        skate.util.queue skate.util.state* skate.experimental*""",
    "graphs": "skate.dag skate.dag.*",
    "front": "skate skate.*",  # and what has no line of its own
    "calls": """skate.actor skate.remote_function skate.ref skate.calls* skate.serialize skate.runtime_env
        skate.job_config skate.util skate.util.placement_group skate.dag.binding
        skate.dag.base skate.dag.constants skate.dag.context skate.dag.transport skate.dag.py_obj_scanner skate.dag.dag_node
        skate.dag.class_node skate.dag.function_node skate.dag.input_node skate.dag.output_node""",
    "ground": """skate._skate skate._deps skate._did_you_mean skate._forked skate._job skate._labels skate._lazy skate._needs
        skate.calls.by_value skate.calls.causes skate.calls.in_actor skate.calls.in_graph skate.terminal*
        skate.config skate.exceptions skate.ids skate.memory skate._private skate._private.processes skate._private.stack
        skate._private.metrics_board skate._private.timeline skate._private.view skate._private.prometheus skate.compat skate.compat.absent skate.compat.as_ray skate.compat.spawned* skate.compat.without_effect
        skate.util.accelerators skate.util.metrics skate.util.scheduling_strategies skate.util.serialization""",
}


@functools.cache
def floor(module):
    """The number of a module's floor; 0 is the highest."""
    fits = [
        (len(p), i)
        for i, patterns in enumerate(FLOORS.values())
        for p in patterns.split()
        if fnmatch.fnmatchcase(module, p)
    ]
    return max(fits)[1]


def rings(edges):
    """The strongly connected components of more than one node, the largest first (Tarjan's, without
    recursion)."""
    index, low, on, stack, found = {}, {}, set(), [], []
    for root in edges:
        work = [(root, iter(sorted(edges[root])))] if root not in index else []
        if work:
            index[root] = low[root] = len(index)
            stack.append(root)
            on.add(root)
        while work:
            node, children = work[-1]
            for child in children:
                if child not in edges:
                    continue
                if child not in index:
                    index[child] = low[child] = len(index)
                    stack.append(child)
                    on.add(child)
                    work.append((child, iter(sorted(edges[child]))))
                    break
                if child in on:
                    low[node] = min(low[node], index[child])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    ring = []
                    while not ring or ring[-1] != node:
                        ring.append(stack.pop())
                        on.discard(ring[-1])
                    if len(ring) > 1:
                        found.append(sorted(ring))
    return sorted(found, key=lambda ring: (-len(ring), ring))


def largest_folder(paths):
    """The number of files in the folder with most of them, registries left out."""
    folders = Counter(x.parent.relative_to(ROOT).as_posix() for x in paths)
    return max(n for folder, n in folders.items() if folder not in REGISTRIES)


# ---- Python
# ----------------------------------------------------------------------------------------------------------------------------


ABOUT = {  # rooms of skate that are about a package of others: they may import it at their head
    "skate.compat.spawned": {"ray"},
    "skate.compat.ray.cloudpickle": {"cloudpickle"},
    "skate.engine.ray": {"ray"},
    "skate.util.dask": {"dask"},
    "skate.util.joblib": {"joblib"},
    "skate.util.mypy_plugin": {"mypy"},
}


def foreign(module, name):
    """Whether a module of skate may not import `name` itself: a package of others, which
    skate/_deps.py has."""
    package = name.partition(".")[0]
    if package in sys.stdlib_module_names or package == "skate":
        return False
    return not any(
        package in packages and (module == room or module.startswith(room + "."))
        for room, packages in ABOUT.items()
    )


class Imports(ast.NodeVisitor):
    """The modules that one module names in imports: when it is loaded, late (inside a function),
    and by a stand-in (at its first use; see skate/_deps.py)."""

    def __init__(self, name, is_package, modules, stand_ins=()):
        self.name, self.package = name, name if is_package else name.rpartition(".")[0]
        self.modules, self.stand_ins, self.depth = modules, dict(stand_ins), 0
        self.at_load, self.late, self.lazy = set(), set(), set()
        self.n_late, self.foreign = Counter(), []

    def visit_If(self, node):
        """What stands under TYPE_CHECKING is never imported; what stands under its opposite is."""
        test = node.test
        hidden = isinstance(test, ast.Name | ast.Attribute) and "TYPE_CHECKING" in ast.dump(test)
        for part in node.orelse if hidden else [*node.body, *node.orelse]:
            self.visit(part)

    def visit_Call(self, node):
        """importlib.import_module("a name that is written there")."""
        named = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "import_module"
            and isinstance(named, str)
        ):
            self.note([named])
        self.generic_visit(node)

    def visit_FunctionDef(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def note(self, names):
        # A module that is imported runs its packages first; they are no edge of their own, or each
        # package would be in a ring with all it holds.
        found = {name for name in names if name in self.modules}
        (self.late if self.depth else self.at_load).update(found)
        if names and self.depth:
            package = names[0].partition(".")[0]
            self.n_late[
                "skate"
                if found
                else "the library"
                if package in sys.stdlib_module_names
                else "others"
            ] += 1
        self.foreign += [
            name for name in names if name not in self.modules and foreign(self.name, name)
        ]

    def visit_Import(self, node):
        self.note([alias.name for alias in node.names])

    def visit_ImportFrom(self, node):
        base = node.module or ""
        if node.level:
            above = self.package.split(".")
            above = above[: len(above) - node.level + 1]
            base = ".".join(above + ([node.module] if node.module else []))
        inside = [f"{base}.{alias.name}" for alias in node.names]
        self.lazy.update(self.stand_ins[name] for name in inside if name in self.stand_ins)
        inside = [name for name in inside if name not in self.stand_ins]
        self.note(
            [name if name in self.modules else base for name in inside][
                : None if base.partition(".")[0] == "skate" else 1
            ]
        )


def stand_ins(module, text):
    """ "module.name" -> module of ours, for each `name = stand_in("skate...")` in the text of a
    module."""
    return {
        f"{module}.{name}": of
        for name, of in re.findall(r'^ *(\w+) = stand_in\(\s*"(skate\.[\w.]+)"\s*\)', text, re.M)
    }


def lines_of_code(function):
    """Lines of a Python function without its docstring, which may be as long as readers need."""
    n = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        n -= first.end_lineno - first.lineno + 1
    return n


def any_datasets(nodes):
    """The functions, of all nodes of a tree, that take a Dataset of no type: `ds: Any`."""
    return [
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if a.arg == "ds" and a.annotation and ast.unparse(a.annotation) == "Any"
    ]


def private_names(tree, name):
    """The private attributes and methods of a class of a module."""
    of = next(x for x in tree.body if isinstance(x, ast.ClassDef) and x.name == name)
    found = {x.name for x in of.body if isinstance(x, ast.FunctionDef)}
    for x in ast.walk(of):
        if isinstance(x, ast.Attribute) and ast.unparse(x.value) == "self":
            found.add(x.attr)
    return {x for x in found if x.startswith("_") and not x.startswith("__")}


def private_uses(nodes, names):
    """Where these are attributes of something else than the object of the method itself, among all
    nodes of a tree."""
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr in names
        and ast.unparse(node.value) not in ("self", "cls", "super()")
    ]


def loaded_with(module, at_load):
    """The modules that are loaded with a module, itself included."""
    found, todo = set(), [module]
    while todo:
        if (m := todo.pop()) not in found:
            found.add(m)
            todo += at_load.get(m, ())
    return found


def python_shape():
    paths = {}
    for path in sorted((ROOT / "python" / "skate").rglob("*.py")):
        parts = path.relative_to(ROOT / "python").with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    compiled = {
        ".".join(x.relative_to(ROOT / "python").with_suffix("").parts)
        for x in (ROOT / "python" / "skate").rglob("*.pyi")
    }  # no package, though `from skate` has it
    stood_for = {
        k: v for name, path in paths.items() for k, v in stand_ins(name, path.read_text()).items()
    }
    at_load, all_edges, long, late, others, lines = {}, {}, [], Counter(), [], 0
    trees, any_ds, data = {}, [], "skate.data.dataset"
    for name, path in paths.items():
        text = path.read_text()
        tree = ast.parse(text)
        nodes = trees[name] = list(ast.walk(tree))
        any_ds += [f"{name}.{x}" for x in any_datasets(nodes)]
        lines += text.count("\n")
        imports = Imports(name, path.name == "__init__.py", paths.keys() | compiled, stood_for)
        imports.visit(tree)
        at_load[name] = imports.at_load - {name}
        all_edges[name] = (imports.at_load | imports.late | imports.lazy) - {name}
        late += imports.n_late
        others += [f"{name} imports {x}" for x in imports.foreign if name != "skate._deps"]
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                n = lines_of_code(node)
                if n > LONG:
                    long.append((n, f"{path.relative_to(ROOT)}: {node.name}"))
    upward = [
        f"{m} imports {x}"
        for m in sorted(all_edges)
        for x in sorted(all_edges[m])
        if floor(x) < floor(m)
    ]
    private, under = private_names(trees[data][0], "Dataset"), loaded_with(data, at_load)
    from_below = [
        f"{name}:{use}"
        for name, nodes in trees.items()
        if name.startswith("skate.data.") and name != data
        if name in under or floor(name) > floor(data)
        for use in private_uses(nodes, private)
    ]
    return {
        "modules": len(paths),
        "largest folder": largest_folder(paths.values()),
        "any ds": any_ds,
        "from below": from_below,
        "lines": lines,
        "rings": rings(all_edges),
        "upward": upward,
        "rings at load": rings(at_load),
        "late": late,
        "others": others,
        "stand-ins": [k for k in stood_for if not k.startswith("skate.data.values.")],
        "long": long,
    }


# ---- C
# ---------------------------------------------------------------------------------------------------------------------------------


def c_files():
    return sorted([*(ROOT / "src").rglob("*.c"), *(ROOT / "src").rglob("*.h")])


def c_functions(text):
    """(name, lines) of each function, as clang-format lays them out: from the line with its name at
    column 0 to the brace at column 0."""
    head = None
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"[A-Za-z_].*\(", line) and not line.startswith(("typedef", "extern", "#")):
            head = (number, line)
        if line == "}" and head:
            name = re.search(r"(\w+)\(", head[1])
            yield name.group(1) if name else "?", number - head[0] + 1
            head = None


def objects():
    """The folder of the build that the extension in the tree is of, and its object files by source;
    none where one is missing or older than its source."""
    built = sorted((ROOT / "python" / "skate").glob("_skate*.so"))
    for link in built:
        folder = link.resolve().parent
        while folder != folder.parent and not (folder / "build.ninja").exists():
            folder = folder.parent
        files = {}
        for path in (folder / "CMakeFiles").glob("*.dir/src/**/*.c.o"):
            source = str(path)[str(path).index(".dir/") + 5 : -2]
            known = files.get(source)  # a target that is no more leaves its objects behind
            if (ROOT / source).exists() and (
                known is None or known.stat().st_mtime < path.stat().st_mtime
            ):
                files[source] = path
        ours = {str(path.relative_to(ROOT)): path for path in (ROOT / "src").rglob("*.c")}
        if files and all(
            x.stat().st_mtime <= files[s].stat().st_mtime for s, x in ours.items() if s in files
        ):
            return folder, files
    return None, {}


def c_calls():
    """source -> the sources whose functions it names; and the folder of the build."""
    folder, files = objects()
    defines, needs = {}, defaultdict(set)
    by_path = {str(path): source for source, path in files.items()}
    out = (
        subprocess.run(["nm", "-A", *by_path], capture_output=True, text=True, check=True).stdout
        if files
        else ""
    )
    for line in out.splitlines():
        path, _, rest = line.partition(":")
        kind, symbol = rest.split()[-2:]
        if kind in "TW":
            defines[symbol] = by_path[path]
        elif kind == "U":
            needs[by_path[path]].add(symbol)
    edges = {
        source: {defines[symbol] for symbol in needs[source] if symbol in defines} - {source}
        for source in files
    }
    return folder, edges


def undeclared(edges):
    """'a.c calls b.c' for each call of a part of the local engine's driver that the line "Calls:"
    of its header does not allow, and each between its driver and its workers."""
    local, wrong = ROOT / "src/engine/local", []
    folder = local / "driver"

    headers = {x.stem: x for x in folder.rglob("*.h")}

    def part(source):  # space_disk.c is of the part space
        stem = Path(source).stem
        return stem if stem in headers else stem.partition("_")[0]

    def room(source):  # driver, worker or wire; both of the former call the latter
        path = ROOT / source
        return path.relative_to(local).parts[0] if path.is_relative_to(local) else None

    for source, to in sorted(edges.items()):
        header = headers.get(part(source))
        if room(source):
            wrong += [
                f"{source} calls {x}"
                for x in sorted(to)
                if room(x) not in (None, "wire", room(source))
            ]
        if room(source) != "driver" or header is None:
            continue
        allowed = re.search(r"^ \* Calls: (.*?)\.", header.read_text(), re.M | re.S)
        names = {part(source), *(re.findall(r"\w+", allowed.group(1)) if allowed else [])}
        engine = [
            x
            for x in sorted(to)
            if room(x) in ("driver", "wire") or Path(x).parent == Path("src/engine/by")
        ]
        wrong += [f"{source} calls {x}" for x in engine if part(x) not in names]
    return wrong


ROOMED = ("src/py", "src/engine/local/driver")  # folders whose README has a table of rooms


def rooms_allowed(readme):
    """room -> the rooms that it may call, by the table of a folder's README."""
    return {
        room: {room, *re.findall(r"`(\w+)`", may)}
        for room, may in re.findall(r"^\| `(\w+)` \|.*\|([^|]*)\|$", readme, re.M)
    }


def rooms_undeclared(edges, folder, readme):
    """'a.c calls b.c' for each call from one room of a folder to another, or to a file of it
    outside of all rooms, that the table does not allow; and rooms without a row."""
    folder, allowed = Path(folder), rooms_allowed(readme)

    def room(source):  # "" of the files that put the rooms together
        return Path(source).parent.relative_to(folder).as_posix().removeprefix(".")

    inside = {
        source: {x for x in to if folder in Path(x).parents}
        for source, to in edges.items()
        if folder in Path(source).parents
    }
    wrong = [
        f"{folder / x} has no row in {folder / 'README.md'}"
        for x in sorted({room(source) for source in inside} - {"", *allowed})
    ]
    for source, to in sorted(inside.items()):
        wrong += [
            f"{source} calls {x}"
            for x in sorted(to)
            if room(source) and room(x) not in allowed.get(room(source), {room(x)})
        ]
    return wrong


CHANGES = r"sk_list_(?:init|del|push_back|push_front|splice|insert_before)|sk_map_(?:init|deinit|put|del)|sk_vec_(?:push|pop|reserve|free)|memset|memcpy|snprintf"


def writes_across(path, text):
    """'file:line: what' for each write, in one file of the driver of the local engine, to what
    another file owns (OWNERS).

    Seen are assignments, ++ and --, and the calls that change lists, maps and vectors, through `l`,
    through a pointer to a part of it that is not const, and through variables that the function, or
    its parameters, declare as a pointer to an owned struct."""
    own = {what for what, files in OWNERS.items() if path.stem in files.split()}
    if path.name == "local_int.h":  # the calls of owners that are inlined
        own = set(OWNERS)
    found, names = [], {}
    changes = re.compile(rf"(?<![=!<>])=(?!=)|<<=|>>=|\+\+|--|\b(?:{CHANGES})\(")
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"[A-Za-z_].*\(", line):
            names = {}
        for kind, name in re.findall(r"(?<!const )struct (\w+) \*(?:const )?(\w+)", line):
            names[name] = kind if kind in OWNERS else None
        for name, part in re.findall(r"\*(\w+) = &(l->\w+)(?=[;,])", line):
            names[name] = part if part in OWNERS and "const struct" not in line else None
        if "->" not in line or not changes.search(line):
            continue
        targets = {what: re.escape(what) for what in OWNERS if "->" in what}
        targets |= {
            f"{kind} ->{member}": rf"\w+(?:\.\w+)*->{member}(?=->)"
            for member, kind in OWNED_BY_MEMBER.items()
        }
        targets |= {f"{kind} {name}": rf"{name}(?=->)" for name, kind in names.items() if kind}
        targets["sk_obj of an id"] = r"sk_obj_get\([^;=]*?\)(?=->)"
        for what, pattern in targets.items():
            # of a struct its own members: what they point to has an owner of its own
            dot = r"\." if " " in what else r"(?:\.|->)"
            member = rf"(?<![\w>.]){pattern}(?!\w)(?:->\w+)?(?:{dot}\w+|\[[^]]*\])*"
            change = rf"{member} *(?:[-+|&^]|<<|>>)?=(?!=)|{member}(?:\+\+|--)|(?:\+\+|--){member}|\b(?:{CHANGES})\(&?{member}"
            for hit in re.finditer(change, line):
                part = re.search(rf"{pattern}(?:->|\.)(\w+)", hit.group(0))
                parted = f"{what.split()[0]}.{part.group(1) if part else ''}"
                if (parted if parted in OWNERS else what.split()[0]) not in own:
                    found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
                    break
    return found


def c_writes():
    files = [
        *sorted((ROOT / "src/engine/local/driver").rglob("*.[ch]")),
        ROOT / "src/engine/by/local.c",
    ]
    return [x for path in files for x in writes_across(path, path.read_text())]


def c_shape():
    lines, asserts, long, tags = defaultdict(int), defaultdict(int), [], Counter()
    code = defaultdict(int)  # lines without comments and empty ones
    for path in c_files():
        text = path.read_text()
        layer = path.relative_to(ROOT / "src").parts[0] if path.parent != ROOT / "src" else "."
        lines[layer] += text.count("\n")
        bare = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        code[layer] += sum(bool(x.strip()) for x in bare.splitlines())
        asserts[layer] += len(re.findall(r"\bSK_(?:ASSERT|DCHECK|XCHECK)\(", text))
        long += [
            (n, f"{path.relative_to(ROOT)}: {name}") for name, n in c_functions(text) if n > LONG
        ]
        tags.update(re.findall(r"^struct (sk_\w+) \{", text, re.M))
    folder, edges = c_calls()
    engine_h = (ROOT / "src" / "engine" / "engine.h").read_text()
    task_h = (ROOT / "src/engine/local/driver/tasks/task.h").read_text()
    ops = re.search(r"^struct sk_engine_ops \{.*?^\};", engine_h, re.S | re.M).group(0)
    return {
        "lines": dict(lines),
        "asserts": dict(asserts),
        "code": dict(code),
        "long": long,
        "build": folder,
        "rings": rings(edges),
        "undeclared": undeclared(edges)
        + [
            x
            for folder in ROOMED
            for x in rooms_undeclared(edges, folder, (ROOT / folder / "README.md").read_text())
        ],
        "writes": c_writes(),
        "bools of a task": len(
            re.findall(
                r"^    bool \w",
                re.search(r"^struct sk_ltask \{.*?^\};", task_h, re.S | re.M).group(0),
                re.M,
            )
        ),
        "twice": sorted(x for x, n in tags.items() if n > 1),
        "exchanges in exec": sum(
            len(re.findall("exchange|join|aggreg", x.read_text()))
            for x in c_files()
            if x.is_relative_to(ROOT / "src" / "exec")
        ),
        "largest folder": largest_folder(c_files()),
        "calls": len(re.findall(r"^ {4}\S.*?\(\*\w+\)\(", ops, re.M)),
        "engine.h lines": engine_h.count("\n"),
    }


def measure():
    """(measures by the names of BOUNDS; all that was found)"""
    py, c = python_shape(), c_shape()
    low = ["ipc", "store", "engine"]
    values = {
        "python ring": len(py["rings"][0]) if py["rings"] else 0,
        "python ring at load": len(py["rings at load"][0]) if py["rings at load"] else 0,
        "python imports upward": len(py["upward"]),
        "python late imports of skate": py["late"]["skate"],
        "python late imports of the library": py["late"]["the library"],
        "python late imports of others": py["late"]["others"],
        "python imports of others, not by _deps": len(py["others"]),
        "python stand-ins of skate": len(py["stand-ins"]),
        "python functions over 100 lines": len(py["long"]),
        "python parameters ds: Any": len(py["any ds"]),
        "python private fields of a Dataset from below": len(py["from below"]),
        "c ring": (len(c["rings"][0]) if c["rings"] else 0) if c["build"] else None,
        "c functions over 100 lines": len(c["long"]),
        "engine.h calls": c["calls"],
        "engine.h lines": c["engine.h lines"],
        "asserts per kloc, ipc store engine": 1000
        * sum(c["asserts"][x] for x in low)
        / sum(c["code"][x] for x in low),
        "c writes across owners": len(c["writes"]),
        "bools of a task": c["bools of a task"],
        "c struct tags defined twice": len(c["twice"]),
        "words of exchanges in exec": c["exchanges in exec"],
        "files of the largest folder of C": c["largest folder"],
        "files of the largest folder of Python": py["largest folder"],
    }
    return values, py, c


def keeps(name, value):
    return value >= BOUNDS[name] if name.startswith("asserts") else value <= BOUNDS[name]


def main():
    values, py, c = measure()
    for name, value in values.items():
        shown = (
            "not built" if value is None else f"{value:.1f}" if isinstance(value, float) else value
        )
        print(
            f"{name:46} {shown:>10}   bound {BOUNDS[name]}{'' if value is None or keeps(name, value) else '   BROKEN'}"
        )
    print(f"{'python lines':46} {py['lines']:>10}   in {py['modules']} modules")
    print(f"{'c lines':46} {sum(c['lines'].values()):>10}")
    print("\nasserts per kloc of code (its lines) by layer: ", end="")
    print(
        ", ".join(
            f"{x} {1000 * c['asserts'][x] / n:.1f} ({n})"
            for x, n in sorted(c["code"].items())
            if x != "."
        )
    )
    if c["build"]:
        for ring in c["rings"]:
            print(f"c ring of {len(ring)}: {' '.join(x.removeprefix('src/') for x in ring)}")
        for tag in c["twice"]:
            print(f"defined twice: struct {tag}")
        for call in c["undeclared"]:
            print(f"not allowed by its header or README: {call}")
    for write in c["writes"]:
        print(f"a file writes to a struct that another file owns: {write}")
    for way in py["upward"]:
        print(f"upward: {way}")
    for way in py["others"]:
        print(f"not by skate/_deps.py: {way}")
    for where in py["any ds"]:
        print(f"takes ds: Any: {where}")
    for use in py["from below"]:
        print(f"a private field of a Dataset from below: {use}")
    for ring in py["rings"]:
        print(f"python ring of {len(ring)}: {' '.join(x.removeprefix('skate.') for x in ring)}")
    for n, where in sorted(c["long"] + py["long"], reverse=True):
        print(f"{n:4} lines  {where}")
    return 0 if all(value is None or keeps(name, value) for name, value in values.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
