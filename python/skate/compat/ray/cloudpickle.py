"""`ray.cloudpickle`: the cloudpickle that skate uses, under Ray's name, and dumps_debug(), which
names the part of a value that cannot be pickled."""

from cloudpickle import *  # noqa: F401,F403
from cloudpickle import load, loads, register_pickle_by_value, unregister_pickle_by_value  # noqa: F401

from skate import serialize
from skate.calls.by_value import Pickler, dump, dumps  # noqa: F401

CloudPickler = Pickler


def dumps_debug(obj, *args, **kwargs):
    """dumps(obj); if the value cannot be pickled, the first line of the TypeError names the part
    that cannot."""
    try:
        return dumps(obj, *args, **kwargs)
    except (TypeError, ValueError, AttributeError, RecursionError) as e:
        raise serialize.unpicklable(obj, e) from e
