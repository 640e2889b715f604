"""skate.util.debug: for messages that a process should log once."""

import time

_seen = set()
_disabled = _periodic = False
_last = 0.0


def log_once(key):
    """Returns True for the first call with this key, then False."""
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
    """From now on log_once() returns False."""
    global _disabled
    _disabled = True


def enable_periodic_logging():
    """Makes log_once() forget its keys after it has returned False for a minute."""
    global _periodic
    _periodic = True


def reset_log_once(key=None):
    """Forgets a key; None: all keys."""
    if key is None:
        _seen.clear()
    else:
        _seen.discard(key)
