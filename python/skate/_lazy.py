"""Names of packages that are loaded when they are first asked for (PEP 562)."""

import importlib
import sys

from skate import _did_you_mean
from skate.compat.absent import why

# What only programs of Ray's ask for lies in compat/ray, at its place: a package that has some of
# it puts that folder behind its own, so skate.util.debug is compat/ray/util/debug.py.
OF_RAY = f"{__file__.rpartition('/')[0]}/compat/ray"


def attribute(package, name, where=None, modules=None):
    """package.name, for the package's __getattr__.

    where: {name: module below the package that has it}; modules: names that may be modules below
    the package (None: any name). Raises AttributeError.
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
            if e.name not in (module, f"ray{module[5:]}"):  # as_ray names it so
                raise
    reason = why(f"{package}.{name}")
    hint = f" ({reason})" if reason else ""
    if not hint and not name.startswith("_"):
        hint = _did_you_mean.guess(
            name, [n for n in dir(sys.modules[package]) if not n.startswith("_")], 0.75
        )
    raise AttributeError(f"module '{package}' has no attribute '{name}'{hint}")
