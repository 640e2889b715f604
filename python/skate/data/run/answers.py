"""The answers of strategies in Python: a thread for each exchange that has one, which waits for
what its run asks (src/shuffle/told.h), calls the strategy and says what it answered.

The thread waits without the GIL, and enters the run without it. It ends with the run, which does
not wait for it: user code may take its time.
"""

from __future__ import annotations

import copy
import threading
from typing import Any, NamedTuple

from skate.data.exchange_strategy import Over, Pack, Shuffle, Sizes, checked_values


class Own(NamedTuple):
    """An exchange of a plan whose strategy is in Python. told: what the plan has of it."""

    told: Any
    strategy: Any
    inputs: int


class Answers:
    """Of one run. error: what a strategy raised, which is the failure of the run. TypeError for a
    strategy that cannot be copied."""

    def __init__(self, own: list[Own]) -> None:
        self.error: BaseException | None = None
        self._todo = [(o.told, [_copied(o.strategy) for _ in range(o.inputs)]) for o in own]

    def begin(self, x: Any) -> None:
        """Starts the threads of the run x."""
        for told, copies in self._todo:
            threading.Thread(
                target=self._answer, args=(x, told, copies), name="skate-shuffle", daemon=True
            ).start()

    def end(self) -> None:
        """The run is over; no thread is waited for."""
        for told, _ in self._todo:
            told.close()

    def _answer(self, x: Any, told: Any, strategies: list[Any]) -> None:
        shuffles = [
            Shuffle(lambda what, *more, side=side: told.say(x, what, side, *more))
            for side in range(len(strategies))
        ]
        try:
            while (asked := told.next(x)) is not None:
                what, side, sizes, pack = asked
                shuffles[side].sizes = Sizes(*sizes)
                try:
                    _ask(strategies[side], shuffles[side], what, Pack(*pack))
                except Over:
                    pass
        except BaseException as e:
            self.error = e
            told.say(x, "fail", 0)


def _copied(strategy: Any) -> Any:
    try:
        return copy.deepcopy(strategy)
    except Exception as e:
        raise TypeError(
            f"strategy {type(strategy).__name__}: each input of an exchange gets a copy of it, and copy.deepcopy() raises {type(e).__name__}: {e}; give its class a __deepcopy__"
        ) from e


def _ask(strategy: Any, shuffle: Shuffle, what: str, pack: Pack) -> None:
    """One question, and its answer."""
    if what == "values":
        n = strategy.values(shuffle.sizes)
        shuffle._say("values", checked_values(f"{type(strategy).__name__}.values()", n))
    elif what == "came":
        shuffle._at_hand = True
        strategy.came(shuffle, pack)
        if shuffle._at_hand:
            shuffle.pass_on()
    else:
        strategy.ended(shuffle)
        shuffle._answered("over")
