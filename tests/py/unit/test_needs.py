"""What `import skate` says on a machine that cannot run it: one sentence, whatever is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import skate

PACKAGE = Path(skate.__file__).parent

OTHER_SYSTEM = "import sys; sys.platform = 'darwin'; import skate"

OLD_LIBC = """
import sys

class Loader:
    def find_spec(self, name, path=None, target=None):
        if name == "skate._skate":
            raise ImportError("/lib/libc.so.6: version `GLIBC_2.28' not found (required by skate)")

sys.meta_path.insert(0, Loader())
import skate
"""

# seccomp with a filter of four instructions: pidfd_open (434 on every machine) is not there.
OLD_KERNEL = """
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 434), (0x06, 0, 0, 0x50000 | 38), (0x06, 0, 0, 0x7FFF0000)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *c) for c in code))
program = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(filter)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
import skate
"""

# As PYTHON_GIL=0 makes it on a Python without the GIL.
NO_GIL = "import sys; sys._is_gil_enabled = lambda: False; import skate"

SUBINTERPRETER = """
import sys
if sys.version_info < (3, 13):
    import _xxsubinterpreters as interpreters
    interpreters.run_string(interpreters.create(), "import skate")
else:
    import _interpreters as interpreters
    raise ImportError(interpreters.run_string(interpreters.create(), "import skate").msg)
"""


def says(program: str, path: Path = PACKAGE.parent) -> str:
    """The last line of what a Python that runs the program prints; it has to fail."""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        # a sanitizer's library, which an extension that is built with it needs, is loaded before
        env={"PYTHONPATH": str(path), "LD_PRELOAD": os.environ.get("LD_PRELOAD", "")},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1, ran.stderr
    return ran.stderr.splitlines()[-1]


def test_another_system():
    said = says(OTHER_SYSTEM)
    assert said.startswith("ImportError: skate runs on Linux only, and this is darwin: use ")


def test_an_older_libc():
    said = says(OLD_LIBC)
    assert "glibc 2.28 or newer" in said and "GLIBC_2.28' not found" in said
    assert "pip install --no-binary skate skate" in said


def test_an_older_kernel():
    said = says(OLD_KERNEL)
    assert "ImportError: skate needs Linux 5.3 or newer, and pidfd_open is refused on this " in said
    assert "(Function not implemented)" in said and "seccomp" in said


def test_a_subinterpreter():
    assert "skate runs in the main interpreter only" in says(SUBINTERPRETER)


def test_a_gil_that_stays_off():
    said = says(NO_GIL)
    assert said.startswith("ImportError: skate needs Python's GIL, and PYTHON_GIL=0 or -X gil=0 ")


def test_a_copy_for_another_python_and_one_without_its_c_part(tmp_path):
    (tmp_path / "skate").mkdir()
    for name in "__init__.py", "_needs.py":
        shutil.copy(PACKAGE / name, tmp_path / "skate")
    assert "is not built in this source tree: run ./dev build" in says("import skate", tmp_path)
    (tmp_path / "skate" / "_skate.cpython-399-sparc64-linux-gnu.so").touch()
    said = says("import skate", tmp_path)
    assert "this copy of skate is for cpython-399-sparc64-linux-gnu, and this Python is " in said
