"""What is loaded when it is first asked for: names of packages (PEP 562), and whole modules that only some processes need."""

import importlib
import sys


class _Module:
    """Stands for a module, and imports it at the first look into it. What was found is kept here, so later looks cost as much as those at a class."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value


def module(name):
    """A module, by its whole name, that this process imports only if it uses it."""
    return _Module(name)


def attribute(package, name, where=None, modules=None):
    """package.name, for the package's __getattr__.

    where: {name: module below the package that has it}; modules: names that may be modules below the package (None: any name). Raises AttributeError.
    """
    if where and name in where:
        value = getattr(importlib.import_module(f"{package}.{where[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value
    if modules is None or name in modules:
        module = f"{package}.{name}"
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as e:
            if e.name != module:
                raise
    from skate._private.absent import why

    reason = why(f"{package}.{name}")
    hint = f" ({reason})" if reason else ""
    if not hint and not name.startswith("_"):
        from skate import _near

        hint = _near.guess(name, [n for n in dir(sys.modules[package]) if not n.startswith("_")], 0.75)
    raise AttributeError(f"module '{package}' has no attribute '{name}'{hint}")
