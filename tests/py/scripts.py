"""Scripts of the tree that are no modules of a package, as modules of tests."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def script(path, name=None):
    """The module that the file makes. path: from the root of the tree; name: of the module, by
    which its classes are pickled; None: that of the file."""
    spec = importlib.util.spec_from_file_location(name or Path(path).stem, ROOT / path)
    assert spec and spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
