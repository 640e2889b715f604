"""Small named actors that the driver works for: the way by which workers ask it for something.

A worker makes such an actor, the *desk*, in a namespace that names a module (_job.SERVED), and
calls it. The engine tells the driver that it is there, and the driver calls serve() of that module,
which calls work(): a thread takes what workers have left at the desk. A program that asks for
nothing has no desk and no thread.
"""

import threading

import skate


def desk(cls, name, space):
    """The actor, in a worker: the first one that asks makes it. cls: its class, with a coroutine
    work() that gives a list of what came since, when there is something."""
    how = {
        "name": name,
        "namespace": space,
        "get_if_exists": True,
        "lifetime": "detached",
        "num_cpus": 0,
        "scheduling_strategy": "DEFAULT",
    }
    return skate.remote(cls).options(**how).remote()


def work(name, space, do, thread):
    """In the driver: calls do(desk, item) for each item that the desk's work() gives, on a thread
    of this name, until the engine ends."""
    try:
        at = skate.get_actor(name, namespace=space)
    except ValueError:
        return  # it has ended already
    threading.Thread(target=_work, args=(at, do), name=thread, daemon=True).start()


def _work(at, do):
    try:
        while True:
            for item in skate.get(at.work.remote()):
                do(at, item)
    except Exception:
        if skate.is_initialized():
            raise
