"""The child of a fork (os.fork, multiprocessing, preexec_fn of subprocess) has one thread, the one
that forked. What other threads held at that moment nobody in it lets go:

- *Locks of skate* that a child may need are made by lock(), and are free in it.
- *Imports under way.* Much is imported at its first use (skate/_lazy.py, C, libraries), so another
  thread may be in the middle of it. In the child such
  a module is as one whose import failed: its next import begins anew. What had come in whole stays.

Not here: the engine, which is the parent's (src/py/module.c: in_child).
"""

import _frozen_importlib
import os
import sys
import weakref
from _thread import allocate_lock, get_ident

_locks = weakref.WeakSet()
_under_way = _frozen_importlib._module_locks  # of imports  # pyright: ignore[reportAttributeAccessIssue]


def lock(make=allocate_lock):
    """A lock (make=RLock: one that its thread may take again) that is free in the child of a
    fork."""
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
