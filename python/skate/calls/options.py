"""The options of @remote(...) and .options(...), checked as in Ray: unknown names and wrong values
raise an error in the call that gives them."""

import functools

from skate import _did_you_mean, _labels, runtime_env
from skate._deps import re
from skate.util import scheduling_strategies
from skate.util.placement_group import PlacementGroup, of_options

_NUMBER = (int, float)


def _number(name, v):
    if not isinstance(v, _NUMBER) or isinstance(v, bool):
        raise TypeError(f"{name} is a number or None, not {type(v)}")
    if v < 0 or v != v:
        raise ValueError(
            f"The quantity of resource {name} cannot be negative: {name}={v!r}; 0 or more, or None"
        )
    if 0 < v < 0.0001:
        raise ValueError(
            f"The precision of the fractional quantity of resource {name} cannot go beyond 0.0001"
        )


def _type(name, v, *types: type):
    if not isinstance(v, types) or (isinstance(v, bool) and bool not in types):
        wanted = bool if types == (bool,) else (*types, type(None))
        raise TypeError(
            f"The type of keyword '{name}' must be {wanted}, but received type {type(v)}"
        )


def _whole(name, v, least, what):
    _type(name, v, int)
    if v < least:
        raise ValueError(f"The keyword '{name}' only accepts {what}, not {v!r}")


def _retries(name, v):
    _whole(name, v, -1, "None, 0, -1 or a positive integer, where -1 represents infinity")


def _count(name, v):
    _whole(name, v, 0, "None, 0 or a positive integer")


def _positive(name, v):
    _whole(name, v, 1, "None or a positive integer")


def _window(name, v):
    _type(name, v, int)
    if v == 0:
        raise ValueError(
            "_generator_backpressure_num_objects=0 is not allowed, the generator would never begin: 1 or more, or -1 for no limit"
        )


def _num_returns(name, v):
    if v in ("streaming", "dynamic"):
        return
    if not isinstance(v, str):
        if not isinstance(v, int) or isinstance(v, bool):
            raise TypeError(
                f"The type of keyword 'num_returns' must be {(int, str, type(None))}, but received type {type(v)}"
            )
        if v >= 0:
            return
    raise ValueError(
        f"The keyword 'num_returns' only accepts None, a non-negative integer, 'streaming' (for generators), or 'dynamic', not {v!r}"
    )


DEFAULT_RESOURCES = ("CPU", "GPU", "memory", "object_store_memory")


def not_default(resources):
    """AssertionError if init(resources=) names a resource that has its own keyword."""
    for k in DEFAULT_RESOURCES:
        if k in resources:
            raise AssertionError(
                f"init: `{k}` cannot be a custom resource because it is one of the default resources: give it by its keyword"
            )


def _resources(name, v):
    _type(name, v, dict)
    for k, amount in v.items():
        if k in ("CPU", "GPU"):
            raise ValueError(
                f"resources={{{k!r}: ...}}: Use the 'num_cpus' and 'num_gpus' keyword for these two"
            )
        if k in ("memory", "object_store_memory"):
            raise ValueError(f"resources={{{k!r}: ...}}: it is an option of its own, {k}=...")
        if not isinstance(k, str):
            raise TypeError(f"a resource's name must be str, not {type(k)}")
        _number(k, amount)


def _retry_exceptions(name, v):
    _type(name, v, bool, list, tuple)
    if isinstance(v, bool):
        return
    for c in v:
        if not (isinstance(c, type) and issubclass(c, BaseException)):
            raise ValueError(
                f"retry_exceptions: True, False or a list of exception classes; {c!r} is none"
            )


def _text(name, v):
    _type(name, v, str)


def _name(name, v):
    _type(name, v, str)
    if not v:
        raise ValueError(
            "Actor name cannot be an empty string"
            if name == "name"
            else f"The keyword '{name}' must not be empty"
        )


def _bool(name, v):
    _type(name, v, bool)


def _dict(name, v):
    _type(name, v, dict)


_LABEL = r"[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?"  # the syntax of labels in Kubernetes


def label_selector(name, v):
    """Checks the form of {label: value, !value, in(a, b), !in(a, b)}."""
    _type(name, v, dict)
    for key, value in v.items():
        prefix, _, label = key.rpartition("/")
        if not re.fullmatch(_LABEL, label) or (
            prefix and not re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", prefix)
        ):
            raise ValueError(
                f"{name}: {key!r} is no label: letters, digits, - _ . of at most 63, after an optional prefix of such names and a /"
            )
        if value and not re.fullmatch(rf"!?({_LABEL}|in\({_LABEL}(, ?{_LABEL})*\))", value):
            raise ValueError(
                f"{name}: {key!r}: {value!r} is neither a value nor !value, in(a, b), !in(a, b)"
            )


def fallback_strategy(name, v):
    """Checks the form of a list of {"label_selector": {...}}."""
    _type(name, v, list)
    for choice in v:
        if not isinstance(choice, dict) or set(choice) - {"label_selector"}:
            raise ValueError(
                f"{name}: a list of {{'label_selector': {{label: value}}}} is wanted; {choice!r} is something else"
            )
        label_selector(name, choice.get("label_selector", {}))


def _runtime_env(name, v):
    _type(name, v, dict)
    runtime_env.check(v)


def _groups(name, v):
    if isinstance(v, dict):
        items = v.items()
    else:
        _type(name, v, list, dict)
        items = [(g.get("name"), g.get("max_concurrency")) for g in v]
    for group, n in items:
        if not isinstance(group, str) or not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise ValueError(
                f"concurrency_groups: a name and a positive number of calls at a time are wanted, not {group!r}: {n!r}"
            )


def _lifetime(name, v):
    _type(name, v, str)
    if v not in ("detached", "non_detached"):
        raise ValueError(f"lifetime={v!r}: 'detached', 'non_detached' or None")


def _strategy(name, v):
    if isinstance(v, str):
        if v not in ("DEFAULT", "SPREAD"):
            raise ValueError(
                f'scheduling_strategy must be "DEFAULT", "SPREAD" or one of skate.util.scheduling_strategies, not {v!r}'
            )
        return
    _type(
        name,
        v,
        str,
        scheduling_strategies.PlacementGroupSchedulingStrategy,
        scheduling_strategies.NodeAffinitySchedulingStrategy,
        scheduling_strategies.NodeLabelSchedulingStrategy,
    )


def _placement_group(name, v):
    if v != "default":
        _type(name, v, PlacementGroup)


def _bundle(name, v):
    _type(name, v, int)


def _not_for_tasks(name, v):
    raise ValueError("object_store_memory: tasks reserve none of the store; leave it out")


_COMMON = {
    "accelerator_type": _text,
    "enable_task_events": _bool,
    "fallback_strategy": fallback_strategy,
    "label_selector": label_selector,
    "memory": _number,
    "name": _text,
    "num_cpus": _number,
    "num_gpus": _number,
    "object_store_memory": _count,
    "placement_group": _placement_group,
    "placement_group_bundle_index": _bundle,
    "placement_group_capture_child_tasks": _bool,
    "resources": _resources,
    "runtime_env": _runtime_env,
    "scheduling_strategy": _strategy,
    "_labels": _dict,
    "_metadata": _dict,
}
TASK = dict(
    _COMMON,
    max_calls=_count,
    max_retries=_retries,
    num_returns=_num_returns,
    object_store_memory=_not_for_tasks,
    retry_exceptions=_retry_exceptions,
    _generator_backpressure_num_objects=_window,
)
ACTOR = dict(
    _COMMON,
    allow_out_of_order_execution=_bool,
    concurrency_groups=_groups,
    enable_tensor_transport=_bool,
    get_if_exists=_bool,
    lifetime=_lifetime,
    max_concurrency=_positive,
    max_pending_calls=_retries,
    max_restarts=_retries,
    max_task_retries=_retries,
    name=_name,
    namespace=_name,
)
METHOD = {
    "concurrency_group": _name,
    "enable_task_events": _bool,
    "max_task_retries": _retries,
    "name": _text,
    "num_returns": _num_returns,
    "retry_exceptions": _retry_exceptions,
    "tensor_transport": _text,
    "_generator_backpressure_num_objects": _window,
}


def check(table, given, what):
    """Returns `given` unchanged, or raises TypeError or ValueError."""
    for name, value in given.items():
        rule = table.get(name)
        if rule is None:
            valid = sorted(k for k in table if k[0] != "_")
            near = _did_you_mean.nearest(name, valid)
            meant = f"did you mean {near!r}?" if near else f"Valid ones are {valid}."
            raise ValueError(
                f"Invalid option keyword {name} for {what}. {meant[0].upper()}{meant[1:]}"
            )
        if value is not None:
            rule(name, value)
    return given


CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR = 0x20, 0x80, 0x200


def _flags(fn):
    while hasattr(fn, "__wrapped__"):
        fn = fn.__wrapped__
    code = getattr(fn, "__code__", None)
    return 0 if code is None else code.co_flags


def is_generator(fn):
    return bool(_flags(fn) & (CO_GENERATOR | CO_ASYNC_GENERATOR))


def is_async_generator(fn):
    return bool(_flags(fn) & CO_ASYNC_GENERATOR)


def is_async(fn):
    return bool(_flags(fn) & (CO_COROUTINE | CO_ASYNC_GENERATOR))


def group_of(o, default_cpus, what):
    """The placement group that options name, the nodes that they allow, and what no node may
    fulfil, as keywords of a Template."""
    strategy, selector = o.get("scheduling_strategy"), o.get("label_selector")
    if strategy is None and o.get("placement_group") is None and not selector:
        return {}
    group = {}
    if strategy is not None or o.get("placement_group") is not None:
        group = of_options(o, default_cpus, what)
    unfit, others = getattr(strategy, "_unfit", None), o.get("fallback_strategy")
    nodes = _labels.where(strategy, selector, others)
    if selector:
        unfit = _either(unfit, functools.partial(_labels.unfit, selector, others))
    return {**group, **({"unfit": unfit} if unfit else {}), **({"where": nodes} if nodes else {})}


def _either(one, other):
    return other if one is None else lambda: one() or other()


# Resources that are devices, besides GPUs, each with the variable that lists a process's devices.
DEVICES = {
    "neuron_cores": "NEURON_RT_VISIBLE_CORES",
    "TPU": "TPU_VISIBLE_CHIPS",
    "NPU": "ASCEND_RT_VISIBLE_DEVICES",
    "HPU": "HABANA_VISIBLE_MODULES",
    "RBLN": "RBLN_DEVICES",
    "METAX_GPU": "CUDA_VISIBLE_DEVICES",
}


def devices_of(custom):
    """The first of these resource names that stands for devices (src/engine/place/res.c takes the
    same one); "" if there is none."""
    return next((k for k in list(custom)[:13] if k in DEVICES), "")


def parts_of_units(o):
    """The ValueError about an amount of a device that is above 1 and not whole, such as 1.5; None
    if there is no such amount. As in Ray, remote() raises it."""
    for name, v in (("num_gpus", o.get("num_gpus")), *(o.get("resources") or {}).items()):
        if (name == "num_gpus" or name in DEVICES) and v and v > 1 and v != int(v):
            return ValueError(
                f"{name}={v}: of more than one device only whole ones can be asked for"
            )
    return None


def resources_of(o):
    """The resources that options name, as keywords of a Template."""
    out = {k: o[k] for k in ("num_cpus", "num_gpus", "memory", "resources") if o.get(k) is not None}
    if "memory" in out:
        out["memory"] = int(out["memory"])  # bytes
    kind = o.get("accelerator_type")
    if kind:
        out["resources"] = {**(out.get("resources") or {}), f"accelerator_type:{kind}": 0.001}
    return out
