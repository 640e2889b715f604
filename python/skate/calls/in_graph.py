"""The part of a compiled graph that runs in an actor's process. It is not in skate.dag, so that a
restarted process which resumes a graph need not load the rest of that package."""

import _pickle as pickle  # without re and struct
import threading

from skate import _skate
from skate._deps import by_value

_kept = {}  # graph whose checkpoints include this actor's state -> the graph's thread


def _saves(instance):
    """Returns the state of an actor as bytes."""
    state = instance.__skate_checkpoint__()
    try:
        return pickle.dumps(state, protocol=5)
    except Exception:  # functions and classes of __main__ need cloudpickle
        return by_value.dumps(state, protocol=5)


def _restores(instance, state):
    """Restores an actor's state from the bytes of _saves()."""
    instance.__skate_restore__(pickle.loads(state))


def begin(instance, plan, restarts, retries):
    """Starts an actor's loop for a graph, on a new thread.

    Args:
        instance: The actor.
        plan: The operations that it executes.
        restarts: Its max_restarts.
        retries: Its max_task_retries.

    Returns:
        Whether its next process resumes the graph if this one dies.
    """
    keeps = bool(restarts) and hasattr(instance, "__skate_checkpoint__")
    if keeps and not hasattr(instance, "__skate_restore__"):
        raise TypeError(
            f"{type(instance).__name__} has __skate_checkpoint__(self), and no __skate_restore__(self, state)"
        )
    if keeps and any(
        graph != plan[0] and t.is_alive() for graph, t in _kept.items()
    ):  # ):  # begin() may be called twice: by a retried call, and after a death.
        raise ValueError(
            f"{type(instance).__name__} has __skate_checkpoint__: its state goes along with one compiled graph at a time. Tear the other one down"
        )
    again = (retries or (-1 if keeps else 0)) if restarts else 0
    hooks = (_saves, _restores) if keeps else (None, None)
    thread = threading.Thread(
        target=_skate.graph_run, args=(instance, plan, *hooks), daemon=True, name="skate-graph"
    )
    if _skate.graph_begin(plan, again, _saves(instance) if keeps else None):
        thread.start()
        if keeps:
            _kept.clear()
            _kept[plan[0]] = thread
    return again != 0
