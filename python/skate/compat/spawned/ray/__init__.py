"""What `import ray` finds first in a process that multiprocessing has spawned from a program of
skate.as_ray(), which hands its sys.path on: skate, there, too."""

import sys

from skate.compat.as_ray import install

del sys.modules["ray"]  # this module
install()
import ray  # noqa: E402, F401  # pyright: ignore[reportMissingImports]  importlib takes what is in sys.modules then
