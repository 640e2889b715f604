"""inspect_serializability: finds out which part of a value prevents sending it to another process,
and why."""

from skate import serialize
from skate._deps import by_value


class FailureTuple:
    """A part that cannot be sent: the object `obj`, its `name`, and the object that refers to it
    (`parent`)."""

    def __init__(self, obj, name, parent):
        self.obj, self.name, self.parent = obj, name, parent

    def __repr__(self):
        return f"FailTuple({self.name} [obj={self.obj}, parent={self.parent}])"


def inspect_serializability(base_obj, name=None, depth=3, print_file=None):
    """Returns (whether base_obj can be sent, a set of FailureTuple for those of its parts, down to
    `depth` levels, that cannot). The findings are printed to print_file (default: stdout), the
    cause first."""
    name = str(base_obj) if name is None else name
    failures = []
    error = _error(base_obj)
    if error is not None:
        _search(base_obj, name, None, depth, failures, {id(base_obj)})
        print(serialize.unpicklable(serialize._users_own(base_obj), error), file=print_file)
        for f in failures:
            print(f"  {f}", file=print_file)
    return error is None, set(failures)


def _error(obj):
    try:
        by_value.dumps(obj, protocol=5, buffer_callback=lambda b: None)
    except Exception as e:
        return e
    return None


def _search(obj, name, parent, depth, failures, seen):
    found = False
    if depth > 0:
        for what, part in serialize._parts(obj):
            if id(part) in seen:
                continue
            seen.add(id(part))
            if _error(part) is not None:
                found = True
                _search(part, what.split(" ")[-1], obj, depth - 1, failures, seen)
    if not found:
        failures.append(FailureTuple(obj, name, parent))
