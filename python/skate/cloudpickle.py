"""`ray.cloudpickle`: the cloudpickle that skate uses, under Ray's name, with a `dumps` that says what cannot be sent."""

import cloudpickle as _cp
from cloudpickle import *  # noqa: F401,F403
from cloudpickle import CloudPickler, Pickler, dump, load, loads, register_pickle_by_value, unregister_pickle_by_value  # noqa: F401

from skate import serialize

dumps = _cp.dumps


def dumps_debug(obj, *args, **kwargs):
    """dumps(obj); a value that cannot be pickled raises a TypeError whose first line names the culprit."""
    try:
        return _cp.dumps(obj, *args, **kwargs)
    except (TypeError, ValueError, AttributeError, RecursionError) as e:
        raise serialize.unpicklable(obj, e) from e
