"""Small named actors through which workers ask the driver for a service.

A worker makes such an actor in a namespace that names a module (_job.SERVED), and calls it. When
the actor exists, the engine tells the driver, which calls serve() of that module. serve() calls
work(), which starts a thread that takes the requests that workers have left at the actor. A program
that asks for no service has no service actor and no thread.
"""

import threading

import skate


def get_or_create(cls, name, space):
    """In a worker: returns a handle of the service actor with this name and namespace; the first
    worker that asks creates the actor. cls: the class of the actor; its coroutine work() waits for
    requests and returns a list of them."""
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
    """In the driver: starts a thread of this name, which calls do(handle of the actor, request) for
    each request that the service actor's work() returns, until the engine ends."""
    try:
        at = skate.get_actor(name, namespace=space)
    except ValueError:
        return  # the service actor has ended already
    threading.Thread(target=_work, args=(at, do), name=thread, daemon=True).start()


def _work(at, do):
    try:
        while True:
            for item in skate.get(at.work.remote()):
                do(at, item)
    except Exception:
        if skate.is_initialized():
            raise
