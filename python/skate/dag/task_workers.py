"""Worker processes for the tasks of a compiled graph. The graph holds them from its compilation
until it is torn down."""

import math

from skate import _job, actor, api
from skate.calls import options

_FITS = options.TASK.keys() & options.ACTOR.keys() - {"name", "object_store_memory"}
_AMOUNTS = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}


class Worker:
    """An actor that has no methods of its own and runs functions."""


def call(instance, function, *args, **kwargs):
    """Runs a task as a plain call of its worker (compiled_plain.py)."""
    return function(*args, **kwargs)


def check(node):
    """NotImplementedError if a task has options that a node of a compiled graph cannot have."""
    remote = node._remote_function
    given = remote._options
    if given.get("num_returns") not in (None, 1) or options.is_generator(remote._function):
        raise NotImplementedError(
            f"{node!r} has several values; a task in a compiled graph has one: return a tuple, and take it apart where it is used"
        )
    if given.get("retry_exceptions"):
        raise NotImplementedError(
            f"{node!r} has retry_exceptions: in a compiled graph an exception goes to who takes the result; catch it in the function"
        )


def hire(nodes):
    """Makes workers for the nodes; returns {id(node): handle of its worker}. Tasks with the same
    options share workers: there are as many as have room now, and at most one for each task. Tasks
    that were bound one after another share one, so a chain is a pipeline and its values stay in few
    processes."""
    kinds: list = []
    for node in nodes:
        given = {
            k: v for k, v in node._remote_function._options.items() if k in _FITS and v is not None
        }
        given["max_retries"] = _retries(node._remote_function._options)
        for known, members in kinds:
            if known == given:
                members.append(node)
                break
        else:
            kinds.append((given, [node]))
    hired = {}
    for given, members in kinds:
        n = min(len(members), _room(given))
        retries = given.pop("max_retries")
        workers = [
            _WorkerClass.options(**given, max_restarts=retries, max_task_retries=retries).remote()
            for _ in range(n)
        ]
        hired.update({id(node): workers[k * n // len(members)] for k, node in enumerate(members)})
    return hired


def _retries(given):
    """How many deaths of its process a task survives: after each death the next process runs an
    unfinished execution again (compiled_crew.py)."""
    retries = given.get("max_retries")
    return _job.facts()["max_retries"] if retries is None else retries


def _room(given):
    """The number of workers that have room now; at least 1, since a worker for which there is no
    room waits for it."""
    need = {_AMOUNTS[k]: v for k, v in given.items() if k in _AMOUNTS} | given.get("resources", {})
    free = api.available_resources() if any(need.values()) else api.cluster_resources()
    # without resources: as many as there are CPUs, since no more can run at a time
    need = need if any(need.values()) else {"CPU": 1}
    return max(1, min(math.floor(free.get(k, 0) / v) for k, v in need.items() if v))


_WorkerClass = actor.ActorClass(Worker, {})
