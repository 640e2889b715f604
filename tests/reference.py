"""What the site has to say, and what it says: public names of Python and C, settings, variables of
the environment, errors. tests/py/unit/test_site.py compares both by the sources of the pages; `./dev
docs` runs this file over the built site and prints the figures.

A module is public if it has an __all__; its public names are those in it, and the methods and
properties of the classes among them."""

import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
import types
import typing
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
# Public modules whose library is not installed; `./dev docs` has them all.
NEEDS = {"skate.util.dask": "dask", "skate.util.joblib": "joblib"}
LACKING = {module for module, library in NEEDS.items() if not importlib.util.find_spec(library)}


def modules():
    """The public modules of skate."""
    for path in sorted((ROOT / "python" / "skate").rglob("*.py")):
        parts = path.relative_to(ROOT / "python").with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        hidden = {"compat", "_skate"} & set(parts) or any(p.startswith("_") for p in parts[:-1])
        if hidden or name in LACKING:
            continue
        if re.search(r"^__all__|_lazy\.Names\(", path.read_text(), re.M):
            yield importlib.import_module(name)


# What public modules define for other modules of skate.
INSIDE = {
    "skate.data.aggregate": {"Builtin", "State", "check_column", "names_of", "takes"},
    "skate.data.collate_fn": {"is_tensor_batch_type", "numbers", "tensor"},
    "skate.data.exchange_strategy": {"Over", "checked", "checked_values", "option"},
    "skate.data.expressions": {
        *("ClassUDF", "ComputeFn", "columns_of", "conjuncts", "has_user_code", "inline", "walk")
    },
    "skate.data.preprocessor": {"as_table", "is_frame", "one_batch"},
    "skate.exceptions": {"misused", "told"},
    "skate.experimental.tqdm_ray": {"serve"},
    "skate.ids": {"random_uuid"},
}


def forgotten():
    """Names that a public module defines, and that are neither in its __all__ nor in INSIDE."""
    for module in modules():
        here = module.__name__
        for name, thing in vars(module).items():
            # looking closer at anything else could import the library that a stand-in is for
            if name[0] != "_" and isinstance(thing, (type, types.FunctionType)):
                if thing.__module__ == here and name not in {
                    *module.__all__,
                    *INSIDE.get(here, ()),
                }:
                    yield f"{here}.{name}"


def ours(thing):
    return str(getattr(thing, "__module__", "skate")).partition(".")[0] in ("skate", "_skate")


def members(cls):
    """The names of the public methods and properties that a class defines itself."""
    for name, value in vars(cls).items():
        inside = getattr(value, "__func__", getattr(value, "fget", value))
        method = callable(inside) and not inspect.isclass(inside) and ours(inside)
        if method and not name.startswith("_") and inspect.getdoc(getattr(cls, name)) is not None:
            yield name


def entries(thing, name, of=None):
    """(key, name) of a thing and of its members. What has two names has one key."""
    yield (id(thing) if callable(thing) else (of, name)), name
    if inspect.isclass(thing):
        for m in members(thing):
            yield (id(thing), m), f"{name}.{m}"


def public():
    """{key: name} of all public names."""
    out = {}
    for module in modules():
        for name in module.__all__:
            thing = getattr(module, name)
            if not isinstance(thing, (types.ModuleType, types.UnionType, typing.TypeVar)) and ours(
                thing
            ):
                for key, full in entries(thing, f"{module.__name__}.{name}"):
                    out.setdefault(key, full)
    return out


DIRECTIVE = re.compile(
    r"^\.\. (currentmodule|data|auto(?:module|class|function|method|property|data|exception)):: (\S+)\n"
    r"((?:   :.*\n)*)",
    re.M,
)


def resolved(name, module):
    """(thing, full name, what it belongs to) of the name in a directive."""
    full = name if name.startswith("skate.") else f"{module}.{name}"
    above, _, last = full.rpartition(".")
    owner = pkgutil.resolve_name(above)
    if not hasattr(owner, last):  # what is above has the name of a function, too
        owner = sys.modules[above]
    return getattr(owner, last), full, owner


def written():
    """{key: name} of all that the reference names."""
    out = {}

    def note(found):
        for key, full in found:
            out.setdefault(key, full)

    for path in sorted([*REFERENCE.rglob("*.rst"), *REFERENCE.rglob("*.md")]):
        module = ""
        for kind, name, options in DIRECTIVE.findall(path.read_text()):
            if kind in ("currentmodule", "automodule"):
                module = name
                if kind == "automodule" and ":no-members:" not in options and name not in LACKING:
                    of = importlib.import_module(name)
                    for n in of.__all__:
                        note(entries(getattr(of, n), f"{name}.{n}"))
                continue
            thing, full, owner = resolved(name, module)
            if kind in ("data", "autodata"):
                note([((None, full), full)])
            elif kind in ("automethod", "autoproperty"):
                note([((id(owner), name.rpartition(".")[2]), full)])
            elif ":no-members:" in options:
                note([(id(thing), full)])
            else:
                for cls in inspect.getmro(thing) if ":inherited-members:" in options else [thing]:
                    if ours(cls):
                        note(entries(cls, full))
    return out


def environment():
    """The variables of the environment that the sources ask for and that are skate's or Ray's."""
    found = set()
    for path in [*(ROOT / "python/skate").rglob("*.py"), *(ROOT / "src").rglob("*.[ch]")]:
        for line in path.read_text().splitlines():
            if re.search(r"environ|getenv|_ENV", line):
                found |= set(re.findall(r'"((?:SKATE|RAY)_\w+)"', line))
    return found


def c_names():
    """The names of the C interface: functions, macros, types, structs, constants and fields."""
    for line in (ROOT / "tests" / "c" / "abi.txt").read_text().splitlines():
        kind, rest = line.split(" ", 1)
        if kind == "function":
            yield rest.partition("(")[0].split()[-1].lstrip("*")
        elif kind != "symbol":
            yield re.split(r"[^\w.]", rest)[0]


def headers():
    """docs/_ext/headers.py, which makes what hawkmoth reads."""
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    return importlib.import_module("headers")


def c_written():
    """The names that the pages of C have: those of the copies of the headers that hawkmoth reads."""
    out, struct = set(), None
    made = headers()
    for name in ("skate", "skate_data", "skate_graph"):
        for item in made.items((ROOT / "src" / f"{name}.h").read_text()):
            for code in made.singly(item.code):
                declared = made.known(code)
                out.add(declared)
                if item.kind == "open":
                    struct, mine = declared, []
                elif item.kind == "member":
                    mine.append(re.search(r"(\w+)(?:\[\w*\])*;?$|\(\*(\w+)\)", code))
                elif item.kind == "close":
                    struct = struct or code.strip("} ;")
                    out.add(struct)
                    out |= {f"{struct}.{m[1] or m[2]}" for m in mine if m}
    return out


def snippets():
    """What Sybil finds in the documents: how many Python snippets in how many documents, and how
    many are not run: skipped with a reason, or programs of other libraries."""
    sys.path.insert(0, str(ROOT / "tests" / "py" / "docs"))
    import test_snippets

    found = [p.values[0] for p in test_snippets.documents()]
    regions = [r for document in found for _, r in document.regions]
    skips = [r for r in regions if isinstance(r.parsed, tuple)]
    others = sum(len(re.findall(r"^ *```py$", document.text, re.M)) for document in found)
    return (
        f"snippets: {len(regions) - len(skips)} in {len(found)} documents, {len(skips)} of them "
        f"skipped with a reason; {others} of other libraries are not run"
    )


def main():
    inventory = (ROOT / "build" / "site" / "objects.inv").read_bytes()
    lines = zlib.decompress(inventory.split(b"\n", 4)[4]).decode().splitlines()
    built = {line.split(" ", 1)[0] for line in lines}
    names = public()
    have = {k for k, n in written().items() if n in built}
    missing = sorted(n for k, n in names.items() if k not in have)
    print(f"Python: {len(names) - len(missing)} of {len(names)} public names are in the reference")
    ours_c, theirs = set(c_names()), c_written()
    print(f"C: {len(ours_c & theirs)} of {len(ours_c)} names are in the reference")
    print(snippets())
    links = {
        link
        for page in (ROOT / "build" / "site").rglob("*.html")
        for link in re.findall(r'href="(https?://[^"]+)"', page.read_text())
    }
    (ROOT / "build" / "site-links.txt").write_text("".join(f"{link}\n" for link in sorted(links)))
    print(f"links to elsewhere: {len(links)}, in build/site-links.txt; nothing has followed them")
    for name in [*missing, *sorted(ours_c - theirs)]:
        print(f"  missing: {name}")
    return bool(missing or ours_c - theirs)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "python"))
    sys.exit(main())
