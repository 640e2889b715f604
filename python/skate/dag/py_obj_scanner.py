"""Finds and replaces nodes inside values: walks through lists, tuples, dicts and sets, and pickles
other objects to find nodes in them."""

import io
import pickle

from skate._deps import cloudpickle
from skate.dag.base import DAGNodeBase

ATOMS = frozenset((type(None), bool, int, float, complex, str, bytes, bytearray))


class _Pickler(cloudpickle.Pickler):
    """Pickles a value without the nodes and engine objects (references, tokens of actors) in it:
    these go into `out`, and the bytes have their index instead."""

    def __init__(self, file, kind, out, buffers):
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self.kind, self.out = kind, out

    def persistent_id(self, obj):
        if isinstance(obj, self.kind) or type(obj).__module__ == "skate._skate":
            self.out.append(obj)
            return len(self.out) - 1
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, buffers, objects):
        super().__init__(file, buffers=buffers)
        self.objects = objects

    def persistent_load(self, pid):
        return self.objects[pid]


def _pickled(value, kind):
    """Returns (bytes, buffers, [the objects in `out`]); None if the value contains no object of
    `kind`, or cannot be pickled (an error that is raised later, when the value is sent)."""
    file, out, buffers = io.BytesIO(), [], []
    try:
        _Pickler(file, kind, out, buffers).dump(value)
    except Exception:
        return None
    return (file.getvalue(), buffers, out) if any(isinstance(x, kind) for x in out) else None


def find(value, kind=DAGNodeBase):
    """All objects of a type (or of one of several types) inside a value, in order; an object that
    occurs twice is listed twice."""
    out = []
    _find(value, kind, out, set())
    return out


def _find(value, kind, out, inside):
    if isinstance(value, kind):
        out.append(value)
        return
    t = type(value)
    if t in ATOMS or id(value) in inside:
        return
    if t is dict:
        parts = [x for item in value.items() for x in item]
    elif t in (list, tuple, set, frozenset):
        parts = value
    else:
        found = _pickled(value, kind)
        out.extend(x for x in found[2] if isinstance(x, kind)) if found else None
        return
    inside.add(id(value))
    for x in parts:
        _find(x, kind, out, inside)
    inside.discard(id(value))


def replace(value, new, kind=DAGNodeBase):
    """The value in which each x of that type is replaced by new(x). A value without such objects is
    returned unchanged."""
    return _replace(value, new, kind, set())


def _replace(value, new, kind, inside):
    if isinstance(value, kind):
        return new(value)
    t = type(value)
    if t in ATOMS:
        return value
    if id(value) in inside:
        raise ValueError(f"an argument of a graph's node holds itself: a {t.__name__}")
    inside.add(id(value))
    if t is dict:
        out = {
            _replace(k, new, kind, inside): _replace(v, new, kind, inside) for k, v in value.items()
        }
    elif t in (list, tuple, set, frozenset):
        out = t(_replace(x, new, kind, inside) for x in value)
    else:
        found = _pickled(value, kind)
        if found:
            data, buffers, objects = found
            out = _Unpickler(
                io.BytesIO(data), buffers, [new(x) if isinstance(x, kind) else x for x in objects]
            ).load()
        else:
            out = value
    inside.discard(id(value))
    return out


class _PyObjScanner:
    """find() and replace() in two steps, as in Ray: first lists all objects of source_type (a type
    or a tuple of types), then makes a value in which they are replaced."""

    def __init__(self, source_type=DAGNodeBase):
        self.source_type = source_type
        self._value = None

    def find_nodes(self, obj):
        """All objects of source_type inside obj."""
        self._value = obj
        return find(obj, self.source_type)

    def replace_nodes(self, table):
        """The value given to find_nodes(), in which each x is replaced by table[x]."""
        return replace(self._value, table.__getitem__, self.source_type)

    def clear(self):
        """Drops the references to the value."""
        self._value = None
