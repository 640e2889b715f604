"""The package `ray` that a process finds on sys.path if multiprocessing has spawned it from a
program that called skate.as_ray(). It makes `import ray` mean skate in that process, too."""

import sys

from skate.compat.as_ray import install

del sys.modules["ray"]  # this module
install()
import ray  # noqa: E402, F401  # pyright: ignore[reportMissingImports]  importlib takes what is in sys.modules then
