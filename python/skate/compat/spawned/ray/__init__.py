"""The first `ray` on the sys.path of a process that multiprocessing has spawned from a program with
skate.as_ray(): makes `import ray` mean skate there, too."""

import sys

from skate.compat.as_ray import install

del sys.modules["ray"]  # this module
install()
import ray  # noqa: E402, F401  # pyright: ignore[reportMissingImports]  importlib takes what is in sys.modules then
