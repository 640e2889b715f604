"""Small named actors through which workers ask the driver for a service.

A worker makes such an actor, the *desk*, in a namespace that names a module (_job.SERVED), and
calls it. The engine tells the driver that the desk exists; the driver calls serve() of that module,
which calls work(): a thread takes the requests that workers leave at the desk. A program that asks
for no service has no desk and no thread.
"""

import threading

import skate


def desk(cls, name, space):
    """In a worker: the desk of that name, made by the first worker that asks. cls: the class of the
    desk, with a coroutine work() that waits for requests and returns a list of them."""
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
    """In the driver: a thread of this name calls do(desk, item) for each item that the desk's
    work() returns, until the engine ends."""
    try:
        at = skate.get_actor(name, namespace=space)
    except ValueError:
        return  # the desk has ended already
    threading.Thread(target=_work, args=(at, do), name=thread, daemon=True).start()


def _work(at, do):
    try:
        while True:
            for item in skate.get(at.work.remote()):
                do(at, item)
    except Exception:
        if skate.is_initialized():
            raise
