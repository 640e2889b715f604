"""Records which actors run in this process, for code in an actor and for messages about it.
skate.actor imports this module: its Maker registers each actor here."""

from skate import _skate, ids

# number of an actor -> its Maker, for the actors of this process (one; more with the inline engine)
here = {}


def described(function, number, name):
    """(name, ", actor_id=..., repr=...") of the code that runs in the actor `number`, for messages.
    function: the Maker (for the constructor), or (class, method)."""
    maker = here.get(number)
    if not isinstance(function, tuple):
        name, what = (
            f"{getattr(function, '__name__', name)}.__init__",
            repr(getattr(function, "cls", function)),
        )
    else:
        instance = maker.instance() if maker is not None and maker.instance is not None else None
        try:
            what = repr(function[0] if instance is None else instance)
        except Exception:  # the user's __repr__ has failed while another error is reported
            what = function[0].__qualname__
    return name, f", actor_id={ids.ActorID._of(number).hex()}, repr={what}"


def me():
    """(Maker, number) of the actor that this code runs in."""
    task = _skate.current_task()
    if task is None:
        raise RuntimeError("this code runs in no actor")
    number = task[1]
    return here[number], number
