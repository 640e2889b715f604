"""Suggests, for a misspelt name, the known name that was probably meant. It is a separate module,
so that difflib is imported only after a wrong name."""

from skate._deps import difflib


def _words(name):
    return " ".join(sorted(str(name).lower().strip("_").split("_")))


def likeness(name, known):
    """The likeness of two names, from 0.0 to 1.0: they are compared letter by letter, with their
    words in another order, and by whether one contains the other or begins with it."""
    a, b = str(name).lower(), known.lower()
    best = max(
        difflib.SequenceMatcher(None, a, b).ratio(),
        difflib.SequenceMatcher(None, _words(a), _words(b)).ratio(),
    )
    if len(a) >= 4 and (
        b.startswith(a) or set(a.strip("_").split("_")) <= set(b.strip("_").split("_"))
    ):
        best = max(best, 0.75)
    return best


def nearest_few(name, known, most=3, least=0.6):
    """Up to `most` names of `known` (an iterable of str) that look most like `name`, the best
    first; [] where none has a likeness of `least`."""
    low = str(name).lower()
    scored = [
        (likeness(name, k), sum(map(str.__eq__, k.lower(), low)), k) for k in known
    ]  # among equally similar names, the one with most letters at the same positions comes first
    return [
        k for score, _, k in sorted(scored, key=lambda v: (-v[0], -v[1]))[:most] if score >= least
    ]


def nearest(name, known, least=0.6):
    """The name of `known` (an iterable of str) that looks most like `name`; None: none has a
    likeness of `least`."""
    return next(iter(nearest_few(name, known, 1, least)), None)


def guess(name, known, least=0.6):
    """A text that suggests the nearest name ("; did you mean 'x'?"); "" if no name is near."""
    near = nearest(name, known, least)
    return f"; did you mean {near!r}?" if near else ""


def meant(name, known, least=0.6):
    """The end of a message about a wrong name: "; did you mean 'x'?" or, if no name is near, ";
    known are a, b, c"."""
    known = list(known)
    near = nearest(name, known, least)
    return f"; did you mean {near!r}?" if near else f"; known are {', '.join(sorted(known))}"
