"""Small functions of ray.util, under the same names."""

import skate
from skate.actor import list_named_actors  # noqa: F401


def get_node_ip_address():
    """The IP address of this machine, as in skate.nodes()."""
    return "127.0.0.1"


def as_completed(refs, *, chunk_size=10, yield_obj_refs=False, **kwargs):
    """Yields the values (or, with yield_obj_refs, the references) of `refs` as they become ready.
    kwargs: arguments of wait()."""
    pending = list(refs)
    if chunk_size < 1:
        raise ValueError("`chunk_size` must be >= 1")
    while pending:
        first = {"timeout": None if chunk_size == 1 else 0, **kwargs}
        ready, pending = skate.wait(pending, num_returns=min(chunk_size, len(pending)), **first)
        if not ready:
            ready, pending = skate.wait(pending, **{**kwargs, "num_returns": 1})
        yield from ready if yield_obj_refs else skate.get(ready)


def map_unordered(
    fn, items, *, backpressure_size=100, chunk_size=10, yield_obj_refs=False, **kwargs
):
    """Runs fn.remote(item) for each item, at most backpressure_size at a time; yields the values as
    they become ready."""
    if not hasattr(fn, "remote"):
        raise ValueError("`fn` must be a remote function")
    if chunk_size < 1:
        raise ValueError("`chunk_size` must be >= 1")
    if backpressure_size is None:
        backpressure_size = float("inf")
    elif backpressure_size <= 0:
        raise ValueError("backpressure_size must be positive")
    it, pending, more = iter(items), [], True
    while more or pending:
        while more and len(pending) < backpressure_size:
            try:
                pending.append(fn.remote(next(it)))
            except StopIteration:
                more = False
        if pending:
            ready, pending = skate.wait(pending, **{**kwargs, "num_returns": 1})
            yield from ready if yield_obj_refs else skate.get(ready)
