"""cloudpickle, as all of skate uses it: functions and classes that no other process could import
are pickled by value, and their code keeps the name of its file.

cloudpickle 3.1.3 writes `<dynamic-code>` instead of the file's name, so that equal functions have
equal bytes wherever they were defined. Without the name, tracebacks, pdb, warnings, `skate stack`
and `skate replay` show no source lines. Earlier versions write the name; this module does so with
every version.

The results are plain pickles: a reader needs only cloudpickle.
"""

from collections import ChainMap
from io import BytesIO
from types import CodeType

from skate._deps import cloudpickle

try:
    _Pickler = cloudpickle.Pickler
except ModuleNotFoundError as e:
    if e.name != "cloudpickle":
        raise
    raise ModuleNotFoundError(
        "functions, and values that pickle does not take, go to other processes by the package cloudpickle, which is not installed here: "
        'pip install "cloudpickle>=3.1.1,<4"',
        name="cloudpickle",
    ) from None

_FILE = 10  # the index of the file's name in the arguments of CodeType, from Python 3.11 on


def _code(code):
    make, parts = _Pickler.dispatch_table[CodeType](code)  # pyright: ignore[reportAssignmentType]
    return make, (*parts[:_FILE], code.co_filename, *parts[_FILE + 1 :])


class Pickler(_Pickler):
    """cloudpickle.Pickler whose code objects keep the name of their file."""

    dispatch_table = ChainMap({CodeType: _code}, *_Pickler.dispatch_table.maps)  # pyright: ignore[reportAttributeAccessIssue]


def dump(obj, file, protocol=None, buffer_callback=None):
    """Writes the pickle of obj to a file, as cloudpickle.dump does, with the Pickler above."""
    Pickler(file, protocol=protocol, buffer_callback=buffer_callback).dump(obj)


def dumps(obj, protocol=None, buffer_callback=None):
    """The pickle of obj as bytes, as cloudpickle.dumps makes it, with the Pickler above."""
    with BytesIO() as file:
        dump(obj, file, protocol, buffer_callback)
        return file.getvalue()
