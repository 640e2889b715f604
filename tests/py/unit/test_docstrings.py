"""Every public function and method explains each of its arguments. (tests/py/data/test_examples.py
runs the examples.)"""

import inspect
import re

import pytest
import skate
import skate.data as sd


def functions():
    """(name, function) for everything in __all__ of skate and of skate.data, and for the public
    methods that their classes define."""
    for module in (skate, sd):
        for name in module.__all__:
            thing = getattr(module, name)
            path = f"{module.__name__}.{name}"
            if inspect.isclass(thing):
                if issubclass(thing, (BaseException, str)):
                    continue
                yield (
                    path,
                    thing
                    if "Args:" in (thing.__doc__ or "")
                    else next(c for c in thing.__mro__ if "__init__" in vars(c)),
                )  # functions whose arguments these are
                seen = set()
                for c in thing.__mro__:
                    if not c.__module__.startswith("skate"):
                        continue
                    for m, f in vars(c).items():
                        f = f.__func__ if isinstance(f, (staticmethod, classmethod)) else f
                        if (
                            not m.startswith("_")
                            and m not in seen
                            and callable(f)
                            and not inspect.isclass(f)
                        ):
                            seen.add(m)
                            yield f"{path}.{m}", f
            elif callable(thing):
                yield path, thing


def parameters(f):
    """The names of the arguments that a caller may give."""
    try:
        signature = inspect.signature(f.__init__ if inspect.isclass(f) else f)
    except (ValueError, TypeError):  # a function of C without a signature
        return []
    names = [
        n
        for n in signature.parameters
        if n not in ("self", "cls", "ref", "gen") and not n.startswith("_")
    ]
    return [] if set(names) <= {"args", "kwargs"} and inspect.isclass(f) else names


def unexplained(f):
    """What is missing: "a docstring", or the names that are not in the Args section."""
    doc = inspect.getdoc(f)
    if not doc:
        return ["a docstring"]
    section = re.search(r"^Args:\n((?:    .*\n|\n)+)", doc + "\n", re.M)
    found = (
        re.findall(r"^    ([*\w, ]+?)(?: \([^)]*\))?:", section.group(1), re.M) if section else []
    )
    known = {n.strip(" *") for line in found for n in line.split(",")}
    return [n for n in parameters(f) if n not in known]


ALL = dict(functions())


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            n.rpartition(".")[0]
            if "." in n.removeprefix("skate.data.").removeprefix("skate.")
            else n
            for n in ALL
        }
    ),
)
def test_arguments_are_explained(name):
    missing = {n: unexplained(f) for n, f in ALL.items() if n == name or n.startswith(name + ".")}
    missing = {n: m for n, m in missing.items() if m}
    assert not missing, "\n".join(f"{n}: {', '.join(m)}" for n, m in missing.items())


def test_arguments_that_functions_share():
    """Shared arguments are in the signature with the function's own defaults, and in its docstring;
    other keywords are an error."""
    read = inspect.signature(sd.read_csv)
    names = list(read.parameters)
    assert names[:2] == ["paths", "read_options"] and names[-1] == "arrow_open_stream_args"
    assert read.parameters["partitioning"].default.style == "hive"
    assert read.parameters["parallelism"].default == -1 and read.return_annotation == "Dataset"
    assert all(p.kind is p.KEYWORD_ONLY for p in list(read.parameters.values())[1:])
    doc = inspect.getdoc(sd.read_sql)
    # the function's own description
    assert doc.count("override_num_blocks: ") == 1 and "needs shard_keys" in doc
    assert "options: See" not in doc and "\n    memory: Bytes" in doc
    with pytest.raises(TypeError, match=r"^read_text\(\) missing 1 required .* 'paths'$"):
        sd.read_text()
    with pytest.raises(TypeError, match=r"^read_text\(\) got .* 'memry'; did you mean 'memory'\?$"):
        sd.read_text("x", memry=1)
