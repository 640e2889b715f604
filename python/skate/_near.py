"""The known name that somebody meant who wrote another one. Kept apart from its users so that difflib is only imported when a name is wrong."""


def _words(name):
    return " ".join(sorted(str(name).lower().strip("_").split("_")))


def likeness(name, known):
    """How much two names look alike, from 0.0 to 1.0: letter by letter, or with their words in another order, or one inside of the other."""
    from difflib import SequenceMatcher

    a, b = str(name).lower(), known.lower()
    best = max(SequenceMatcher(None, a, b).ratio(), SequenceMatcher(None, _words(a), _words(b)).ratio())
    if len(a) >= 4 and set(a.strip("_").split("_")) <= set(b.strip("_").split("_")):
        best = max(best, 0.75)
    return best


def nearest(name, known, least=0.6):
    """The name of `known` (an iterable of str) that looks most like `name`; None: none has a likeness of `least`."""
    scored = [(likeness(name, k), k) for k in known]
    best = max(scored, default=(0.0, None))
    return best[1] if best[0] >= least else None


def guess(name, known, least=0.6):
    """The same where something is near, else nothing."""
    near = nearest(name, known, least)
    return f"; did you mean {near!r}?" if near else ""


def meant(name, known, least=0.6):
    """The end of a message about a wrong name: "; did you mean 'x'?" or, where nothing is near, "; known are a, b, c"."""
    known = list(known)
    near = nearest(name, known, least)
    return f"; did you mean {near!r}?" if near else f"; known are {', '.join(sorted(known))}"
