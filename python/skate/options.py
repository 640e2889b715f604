"""What may be said in @remote(...) and .options(...), checked as Ray checks it: unknown names and wrong values raise where they are written."""

_NUMBER = (int, float)


def _number(name, v):
    if not isinstance(v, _NUMBER) or isinstance(v, bool):
        raise TypeError(f"The type of keyword '{name}' must be int or float, but received type {type(v)}")
    if v < 0 or v != v:
        raise ValueError(f"The keyword '{name}' only accepts None, 0 or a positive number, not {v!r}")


def _whole(name, v, least, what):
    if not isinstance(v, int) or isinstance(v, bool):
        raise TypeError(f"The type of keyword '{name}' must be int, but received type {type(v)}")
    if v < least:
        raise ValueError(f"The keyword '{name}' only accepts {what}, not {v!r}")


def _retries(name, v):
    _whole(name, v, -1, "None, 0, -1 (for ever) or a positive integer")


def _positive(name, v):
    _whole(name, v, 1, "None or a positive integer")


def _num_returns(name, v):
    if v == "streaming":
        return
    if v == "dynamic":
        raise ValueError('num_returns="dynamic" is the old name of a generator; use num_returns="streaming"')
    if isinstance(v, str):
        raise ValueError(f"The keyword 'num_returns' only accepts None, a non-negative integer or \"streaming\", not {v!r}")
    _whole(name, v, 0, 'None, a non-negative integer or "streaming"')


def _resources(name, v):
    if not isinstance(v, dict):
        raise TypeError(f"The type of keyword 'resources' must be dict, but received type {type(v)}")
    for k, amount in v.items():
        if k in ("CPU", "GPU"):
            raise ValueError("Use the 'num_cpus' and 'num_gpus' keyword instead of 'CPU' and 'GPU' in 'resources' keyword")
        if k in ("memory", "object_store_memory"):
            raise ValueError("Use the 'memory' keyword instead of 'memory' in 'resources' keyword")
        if not isinstance(k, str):
            raise TypeError(f"a resource's name must be str, not {type(k)}")
        _number(f"resources[{k!r}]", amount)


def _retry_exceptions(name, v):
    if isinstance(v, bool):
        return
    if not isinstance(v, (list, tuple)):
        raise TypeError(f"The type of keyword 'retry_exceptions' must be bool or a list of exception classes, but received type {type(v)}")
    for c in v:
        if not (isinstance(c, type) and issubclass(c, BaseException)):
            raise TypeError(f"retry_exceptions holds {c!r}, which is not an exception class")


def _text(name, v):
    if not isinstance(v, str):
        raise TypeError(f"The type of keyword '{name}' must be str, but received type {type(v)}")
    if not v:
        raise ValueError(f"The keyword '{name}' must not be empty")


def _bool(name, v):
    if not isinstance(v, bool):
        raise TypeError(f"The type of keyword '{name}' must be bool, but received type {type(v)}")


def _any(name, v):
    pass


def _runtime_env(name, v):
    if v:
        raise NotImplementedError("runtime_env of one task or actor; give env_vars to skate.init(runtime_env=...) instead")


def _concurrency(name, v):
    _positive(name, v)
    if v > 1:
        raise NotImplementedError("max_concurrency > 1: an actor runs one call at a time")


def _groups(name, v):
    if v:
        raise NotImplementedError("concurrency_groups: an actor runs one call at a time")


def _lifetime(name, v):
    if v not in ("detached", "non_detached"):
        raise ValueError('lifetime must be None, "detached" or "non_detached"')


_COMMON = {
    "num_cpus": _number,
    "num_gpus": _number,
    "memory": _number,
    "resources": _resources,
    "name": _text,
    "runtime_env": _runtime_env,
    "accelerator_type": _any,
    "scheduling_strategy": _any,
    "label_selector": _any,
    "fallback_strategy": _any,
    "enable_task_events": _any,
    "placement_group": _any,
    "placement_group_bundle_index": _any,
    "placement_group_capture_child_tasks": _any,
    "_metadata": _any,
    "_labels": _any,
    "object_store_memory": _any,
}
TASK = dict(
    _COMMON,
    num_returns=_num_returns,
    max_retries=_retries,
    retry_exceptions=_retry_exceptions,
    max_calls=_any,
    _generator_backpressure_num_objects=_positive,
)
ACTOR = dict(
    _COMMON,
    max_restarts=_retries,
    max_task_retries=_retries,
    max_concurrency=_concurrency,
    max_pending_calls=_any,
    namespace=_any,
    lifetime=_lifetime,
    get_if_exists=_bool,
    concurrency_groups=_groups,
    allow_out_of_order_execution=_any,
)
METHOD = {
    "num_returns": _num_returns,
    "name": _text,
    "max_task_retries": _retries,
    "retry_exceptions": _retry_exceptions,
    "concurrency_group": _groups,
    "enable_task_events": _any,
    "_generator_backpressure_num_objects": _positive,
}


def check(table, given, what):
    for name, value in given.items():
        rule = table.get(name)
        if rule is None:
            raise ValueError(f"Invalid option keyword {name} for {what}. Valid ones are {sorted(k for k in table if k[0] != '_')}.")
        if value is not None:
            rule(name, value)
    return given


CO_GENERATOR, CO_ASYNC_GENERATOR = 0x20, 0x200


def is_generator(fn):
    code = getattr(fn, "__code__", None)
    return code is not None and bool(code.co_flags & (CO_GENERATOR | CO_ASYNC_GENERATOR))


def resources_of(o):
    """The options that a Template takes for resources."""
    return {k: o[k] for k in ("num_cpus", "num_gpus", "memory", "resources") if o.get(k) is not None}
