"""Lazy public names of packages (PEP 562): a name is imported at its first use. A package lists its
names once, in its stub (__init__.pyi), which type checkers read, too."""

import sys

from skate import _did_you_mean
from skate._deps import importlib
from skate.compat.absent import why

# Modules that only programs written for Ray import are in compat/ray, under the same paths as in
# Ray: a package with such modules adds that folder to its own path, so skate.types is
# compat/ray/types.py.
OF_RAY = f"{__file__.rpartition('/')[0]}/compat/ray"


class Names:
    """The public names of a package with a stub.

    A stub has `from module import name as name`, where a name without `as` is not public, and
    `public = function(module.name)`, a public function that is made from another one. It has no
    comments after statements, and no docstring.
    """

    def __init__(self, package, modules=(), but=()):
        """modules: modules below the package that `from package import *` imports as well; but: the
        names that `import *` leaves out."""
        self._package, self._modules, self._but, self._read = package, modules, but, None

    def _said(self):
        """Reads the stub. Returns ({name: (module, name there), or the text of a call}, the same
        for public names only)."""
        if self._read is None:
            known, public = {}, {}
            with open(f"{sys.modules[self._package].__file__}i") as f:
                text = f.read().replace("(\n    ", "").replace(",\n    ", ",").replace(",\n)", "")
            for line in text.splitlines():
                if line.startswith("from "):
                    _, module, _, names = line.split(" ", 3)
                    for name, _, local in (n.strip().partition(" as ") for n in names.split(",")):
                        known[local or name] = module, name
                        if local == name:
                            public[name] = module, name
                elif " = " in line:
                    name, _, call = line.partition(" = ")
                    public[name] = call
            self._read = known, public
        return self._read

    def get(self, name):
        """The value of a name, for the package's __getattr__. Raises AttributeError."""
        if name == "__all__":
            return self.all()
        if name.startswith("__"):
            raise AttributeError(f"module {self._package!r} has no attribute {name!r}")
        known, public = self._said() if name[0] != "_" else ({}, {})
        if name not in public:
            return attribute(self._package, name)
        value = public[name]
        if isinstance(value, str):
            function, _, given = value.rstrip(")").partition("(")
            (module, _, what), *more = (g.strip(' "').partition(".") for g in given.split(","))
            make = self._import(known[function])
            of = getattr(self._import(known[module]), what)
            value = make(of, *(word for word, _, _ in more))  # pyright: ignore[reportCallIssue]
        else:
            value = self._import(value)
        setattr(sys.modules[self._package], name, value)
        return value

    def _import(self, entry):
        """The value that `from module import name` gives."""
        module, name = entry
        if module != self._package:
            found = importlib.import_module(module)
            if hasattr(found, name):
                return getattr(found, name)
        return importlib.import_module(f"{module}.{name}")

    def all(self):
        """The package's __all__: its public names that are not modules, and `modules`."""
        names = {n for n, v in self._said()[1].items() if v[0] != self._package}
        return sorted((names | set(self._modules)) - set(self._but))

    def dir(self):
        """The package's __dir__()."""
        return sorted({*vars(sys.modules[self._package]), *self._said()[1]})


def attribute(package, name):
    """Finds a module below a package by its name, for the package's __getattr__. Raises
    AttributeError."""
    module = f"{package}.{name}"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as e:
        if e.name not in (module, f"ray{module[5:]}"):  # with as_ray the name begins with "ray"
            raise
    reason = why(module)
    hint = f" ({reason})" if reason else ""
    if not hint and not name.startswith("_"):
        hint = _did_you_mean.guess(
            name, [n for n in dir(sys.modules[package]) if not n.startswith("_")], 0.75
        )
    raise AttributeError(f"module '{package}' has no attribute '{name}'{hint}")
