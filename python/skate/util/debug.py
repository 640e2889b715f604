"""skate.util.debug: what is to be logged once in a process."""

import time

_seen = set()
_disabled = _periodic = False
_last = 0.0


def log_once(key):
    """True the first time it is asked for this key."""
    global _last
    if _disabled:
        return False
    if _periodic and time.monotonic() - _last > 60:
        _seen.clear()
    if key in _seen:
        return False
    _seen.add(key)
    _last = time.monotonic()
    return True


def disable_log_once_globally():
    """From now on log_once() is False."""
    global _disabled
    _disabled = True


def enable_periodic_logging():
    """log_once() forgets its keys when it has been False for a minute."""
    global _periodic
    _periodic = True


def reset_log_once(key=None):
    """Forgets a key; None: all of them."""
    if key is None:
        _seen.clear()
    else:
        _seen.discard(key)
