"""What runs in the process of an actor: its maker, by which code in the actor, and a message about
it, can tell what it is. Below skate.actor, whose Maker comes here."""

from skate import _skate, ids

here = {}  # actor's number -> its maker: of those in this process (one, but for the inline engine)


def described(function, number, name):
    """(name, ", actor_id=..., repr=...") of what runs in actor `number`: `function` is its Maker
    (the constructor), or (class, method)."""
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
        except Exception:  # of the user's, in the middle of another error
            what = function[0].__qualname__
    return name, f", actor_id={ids.ActorID._of(number).hex()}, repr={what}"


def me():
    """(maker, number) of the actor this runs in."""
    task = _skate.current_task()
    if task is None:
        raise RuntimeError("this code runs in no actor")
    number = task[1]
    return here[number], number
