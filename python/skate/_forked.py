"""Repairs skate's state in the child of a fork (os.fork, multiprocessing, preexec_fn of
subprocess). The child has only the thread that forked, so a lock that another thread held at the
time of the fork is never released in the child.

- *Locks of skate* that a child may need are made by lock(), and are free in the child.
- *Unfinished imports.* Many modules are imported at their first use (skate/_lazy.py, C, libraries),
so another thread may be in the middle of an import. In the child such a module counts as a module
whose import has failed: its next import starts from the beginning. Modules that were imported
completely stay.

Not in this module: the engine, which belongs to the parent (src/py/module.c: in_child).
"""

import _frozen_importlib
import os
import sys
import weakref
from _thread import allocate_lock, get_ident

_locks = weakref.WeakSet()
_under_way = _frozen_importlib._module_locks  # locks of unfinished imports  # pyright: ignore[reportAttributeAccessIssue]


def lock(make=allocate_lock):
    """A lock that is free in the child of a fork. make=RLock: a reentrant one."""
    made = make()
    _locks.add(made)
    return made


def _in_child():
    me = get_ident()
    for name, known in list(_under_way.items()):
        held = known()
        if held is None or held.owner is None or held.owner == me:
            continue
        del _under_way[name]
        if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
            del sys.modules[name]
    for made in list(_locks):
        made._at_fork_reinit()


os.register_at_fork(after_in_child=_in_child)
