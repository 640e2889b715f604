"""`ray.cloudpickle`: the cloudpickle that skate uses, under Ray's name, with a `dumps` that names
the part that cannot be sent."""

from cloudpickle import *  # noqa: F401,F403
from cloudpickle import load, loads, register_pickle_by_value, unregister_pickle_by_value  # noqa: F401

from skate import serialize
from skate.calls.by_value import Pickler, dump, dumps  # noqa: F401

CloudPickler = Pickler


def dumps_debug(obj, *args, **kwargs):
    """dumps(obj); a value that cannot be pickled raises a TypeError whose first line names the
    culprit."""
    try:
        return dumps(obj, *args, **kwargs)
    except (TypeError, ValueError, AttributeError, RecursionError) as e:
        raise serialize.unpicklable(obj, e) from e
